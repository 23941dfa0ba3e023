-- An answer says to which question it is: several may be open.
ALTER TABLE message ADD COLUMN key TEXT NOT NULL DEFAULT '';
