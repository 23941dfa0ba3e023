-- The whole schema as it stands after the last migration; for reading. A test holds it equal to all migrations together.
-- Times are UTC in microseconds since 1970; digests are 32 bytes of SHA-256; booleans are 0 and 1.

-- One row per task. Numbers are never given twice (AUTOINCREMENT), and there are at most 2^23 of them.
CREATE TABLE task (
    task_no INTEGER PRIMARY KEY AUTOINCREMENT CHECK (task_no < 1 << 23),
    id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    is_finished INTEGER NOT NULL,
    summary TEXT NOT NULL -- model.status.TaskSummary as JSON
);

CREATE INDEX task_by_name ON task (name);

-- A name belongs to at most one unfinished task.
CREATE UNIQUE INDEX task_unfinished ON task (name) WHERE is_finished = 0;

-- Who may write. The epoch only ever rises.
CREATE TABLE lease (
    task_no INTEGER PRIMARY KEY,
    epoch INTEGER NOT NULL,
    holder TEXT, -- model.ids.Holder as JSON; NULL = released
    beats INTEGER NOT NULL,
    until INTEGER NOT NULL
);

-- One row per append, holding the frames of all its entries. key = task_no << 40 | seq of the first entry, so a journal
-- lies in one piece and has at most 2^40 - 1 entries. Each journal begins with an empty row for seq 0, made with the task.
CREATE TABLE append (
    key INTEGER PRIMARY KEY,
    last_seq INTEGER NOT NULL CHECK (last_seq >= key & 0xFFFFFFFFFF),
    epoch INTEGER NOT NULL,
    prev_digest BLOB NOT NULL CHECK (length(prev_digest) = 32),
    last_digest BLOB NOT NULL CHECK (length(last_digest) = 32),
    frames BLOB NOT NULL
);

-- Whoever writes, and however: only the holder's epoch, only right after the last entry.
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

-- Content-addressed bytes, cut into parts. A large one is written ahead of its append (is_whole = 0 until its last part
-- is there); task_no and epoch say by whom, so that sweep knows when nobody will finish it.
CREATE TABLE blob (
    blob_no INTEGER PRIMARY KEY AUTOINCREMENT,
    digest BLOB NOT NULL CHECK (length(digest) = 32), -- of the bytes before zstd
    size INTEGER NOT NULL,
    is_packed INTEGER NOT NULL, -- whether the parts together are one zstd frame
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

-- Which task's appends name which blob.
CREATE TABLE blob_use (
    task_no INTEGER NOT NULL,
    digest BLOB NOT NULL,
    PRIMARY KEY (task_no, digest)
) WITHOUT ROWID;

CREATE INDEX blob_use_by_digest ON blob_use (digest);

-- Blobs that an append of that task and epoch will name: kept by sweep as long as that lease is held.
CREATE TABLE blob_staged (
    task_no INTEGER NOT NULL,
    digest BLOB NOT NULL,
    epoch INTEGER NOT NULL,
    PRIMARY KEY (task_no, digest)
) WITHOUT ROWID;

CREATE INDEX blob_staged_by_digest ON blob_staged (digest);

-- Heads of whole snapshots; parts without a head are the remains of a kill.
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

-- What was said to a task. A consumed message stays as its id alone, so that posting it once more does nothing.
CREATE TABLE message (
    message_no INTEGER PRIMARY KEY AUTOINCREMENT,
    task_no INTEGER NOT NULL,
    id TEXT NOT NULL,
    is_waiting INTEGER NOT NULL,
    what TEXT NOT NULL,
    text TEXT NOT NULL, key TEXT NOT NULL DEFAULT '',
    UNIQUE (task_no, id)
);

CREATE INDEX message_waiting ON message (task_no) WHERE is_waiting = 1;
