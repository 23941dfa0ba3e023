"""The tools of the ready-made agent, named as AutoGPT names them. Each says what it does to the world."""
