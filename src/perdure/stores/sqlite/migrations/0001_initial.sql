CREATE TABLE task (
    task_no INTEGER PRIMARY KEY AUTOINCREMENT CHECK (task_no < 1 << 23),
    id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    is_finished INTEGER NOT NULL,
    summary TEXT NOT NULL
);

CREATE INDEX task_by_name ON task (name);

CREATE UNIQUE INDEX task_unfinished ON task (name) WHERE is_finished = 0;

CREATE TABLE lease (
    task_no INTEGER PRIMARY KEY,
    epoch INTEGER NOT NULL,
    holder TEXT,
    beats INTEGER NOT NULL,
    until INTEGER NOT NULL
);

CREATE TABLE append (
    key INTEGER PRIMARY KEY,
    last_seq INTEGER NOT NULL CHECK (last_seq >= key & 0xFFFFFFFFFF),
    epoch INTEGER NOT NULL,
    prev_digest BLOB NOT NULL CHECK (length(prev_digest) = 32),
    last_digest BLOB NOT NULL CHECK (length(last_digest) = 32),
    frames BLOB NOT NULL
);

CREATE TRIGGER append_is_due BEFORE INSERT ON append WHEN NEW.key & 0xFFFFFFFFFF > 0
BEGIN
    SELECT RAISE(ABORT, 'fenced')
    WHERE NEW.epoch IS NOT (SELECT epoch FROM lease WHERE task_no = NEW.key >> 40);
    SELECT RAISE(ABORT, 'conflict')
    WHERE ((NEW.key & 0xFFFFFFFFFF) - 1, NEW.prev_digest) IS NOT (
        SELECT last_seq, last_digest FROM append
        WHERE key BETWEEN NEW.key >> 40 << 40 AND NEW.key | 0xFFFFFFFFFF
        ORDER BY key DESC LIMIT 1
    );
END;

CREATE TRIGGER append_is_never_changed BEFORE UPDATE ON append
BEGIN
    SELECT RAISE(ABORT, 'a journal is append-only');
END;

CREATE TABLE blob (
    blob_no INTEGER PRIMARY KEY AUTOINCREMENT,
    digest BLOB NOT NULL CHECK (length(digest) = 32),
    size INTEGER NOT NULL,
    is_packed INTEGER NOT NULL,
    is_whole INTEGER NOT NULL,
    task_no INTEGER NOT NULL,
    epoch INTEGER NOT NULL
);

CREATE UNIQUE INDEX blob_whole ON blob (digest) WHERE is_whole = 1;

CREATE INDEX blob_in_making ON blob (task_no, epoch) WHERE is_whole = 0;

CREATE TABLE blob_part (
    blob_no INTEGER NOT NULL,
    part INTEGER NOT NULL,
    bytes BLOB NOT NULL,
    UNIQUE (blob_no, part)
);

CREATE TABLE blob_use (
    task_no INTEGER NOT NULL,
    digest BLOB NOT NULL,
    PRIMARY KEY (task_no, digest)
) WITHOUT ROWID;

CREATE INDEX blob_use_by_digest ON blob_use (digest);

CREATE TABLE blob_staged (
    task_no INTEGER NOT NULL,
    digest BLOB NOT NULL,
    epoch INTEGER NOT NULL,
    PRIMARY KEY (task_no, digest)
) WITHOUT ROWID;

CREATE INDEX blob_staged_by_digest ON blob_staged (digest);

CREATE TABLE snapshot (
    task_no INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    branch INTEGER NOT NULL,
    fold_version INTEGER NOT NULL,
    digest BLOB NOT NULL,
    size INTEGER NOT NULL,
    parts INTEGER NOT NULL,
    PRIMARY KEY (task_no, seq)
) WITHOUT ROWID;

CREATE TABLE snapshot_part (
    task_no INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    part INTEGER NOT NULL,
    bytes BLOB NOT NULL,
    UNIQUE (task_no, seq, part)
);

CREATE TABLE message (
    message_no INTEGER PRIMARY KEY AUTOINCREMENT,
    task_no INTEGER NOT NULL,
    id TEXT NOT NULL,
    is_waiting INTEGER NOT NULL,
    what TEXT NOT NULL,
    text TEXT NOT NULL,
    UNIQUE (task_no, id)
);

CREATE INDEX message_waiting ON message (task_no) WHERE is_waiting = 1;
