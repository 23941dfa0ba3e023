"""Fourteen short documents: three topics of four, and two that belong to none. Used by the tests of this folder."""

BEES = {
    "keeping/swarm.txt": """\
A swarm leaves the hive in late spring. The old queen flies off with half of the bees and settles on a branch.
A beekeeper who hears the swarm can still catch it with a box and a brush.
Scout bees look for a hollow tree, and come back to dance for the place that they prefer.
""",
    "keeping/winter.txt": """\
In winter the bees form a cluster around the queen and shiver to keep her warm.
The hive needs fifteen kilograms of honey to reach the first blossom. A weak colony is better joined with a strong one.
Mice like a warm hive as well, so the beekeeper narrows the entrance in October.
""",
    "keeping/honey.md": """\
# Honey

Bees thicken nectar in the comb until it holds less than a fifth of water, then seal each cell with wax.

- Take only frames that are sealed, or the honey will ferment in the jar.
- Leave the brood nest alone: the queen and her colony live there.

Heather honey is stiff as jelly and has to be pressed from the comb.
""",
    "keeping/mites.txt": """\
The varroa mite came from Asia and lives on the brood of the honey bee.
Count the mites that fall on a board under the hive, and treat the colony when ten fall in a day.
Drone brood draws the mite most: a beekeeper cuts it out and takes the mites with it.
""",
}

ORBITS = {
    "sky/kepler.txt": """\
Each planet moves on an ellipse, with the sun in one focus. Kepler found this from the orbit of Mars.
The line from the sun to the planet sweeps equal areas in equal times, so a planet is fastest where its orbit comes
nearest to the sun. The square of the period grows as the cube of the mean distance.
""",
    "sky/moons.txt": """\
Io, Europa and Ganymede keep time with one another: while Ganymede goes once around its planet, Europa goes twice.
Such a resonance holds an orbit in its shape, and the tides that follow heat the inside of the moon.
Ganymede is larger than the planet Mercury, and has a magnetic field of its own.
""",
    "sky/comets.rst": """\
Comets
======

A comet comes from far beyond the last planet and falls towards the sun on a long ellipse.
The tail always points away from the sun, whichever way the comet is moving.

Halley saw that the orbits of three comets were alike, and said in which year the comet would return.
""",
    "sky/transfer.txt": """\
The cheapest way from one orbit to another is half an ellipse that touches both.
A probe to Mars burns its engine twice: to leave the orbit of the earth, and to stay in that of the planet.
The window opens every twenty-six months, when the planet stands ahead of the earth by the right angle.
A moon that passes close by can bend the path and lend the probe some speed.
""",
}

BREAD = {
    "kitchen/sourdough.md": """\
Sourdough rises by wild yeast and by the bacteria that give it its taste.
Feed the starter with flour and water each day.

A starter is ready when it doubles within four hours; a spoonful of it floats on water.

The dough takes its time: four hours on the table, a night in the cold, an hour in the oven and one to cool.
""",
    "kitchen/baguette.txt": """\
A baguette is made of flour, water, yeast and salt, and of nothing else. The dough is wet and is folded, not kneaded.
Slash the loaf at a flat angle before it goes into the oven, and let steam in, so that the crust opens in ears.
""",
    "kitchen/oven.html": """\
<html><head><title>The oven</title><style>p { color: brown }</style></head><body>
<h1>The oven</h1>
<p>A stone in the oven gives the loaf its heat from below, as the floor of a baker's oven does.</p>
<p>Steam keeps the crust <b>soft</b> while the dough is still rising &amp; makes it shine.</p>
<p>Bread is done when the loaf sounds hollow, or at ninety-six degrees inside the crumb.</p>
</body></html>
""",
    "kitchen/rye.txt": """\
Rye flour has little gluten, so a rye loaf stands in a tin and is never kneaded long.
Without sourdough the crumb of rye bread stays wet: the acid stops what would eat its starch in the oven.
Let the bread rest for a day before you cut the crust.
""",
}

LONERS = {
    "piano.txt": """\
Eighty-eight hammers strike about two hundred and thirty strings of steel. The tuner begins with the A above middle C.
Equal temperament makes all fifths a shade too narrow. A soundboard of spruce carries the tone into the room.
""",
    "letters/lease.txt": """\
The tenant shall return the flat swept clean, with all keys, on the day the contract ends.
Rent is payable by the third working day of each month. The landlord keeps the deposit apart from her own money.
""",
}

TOPICS = (BEES, ORBITS, BREAD)
