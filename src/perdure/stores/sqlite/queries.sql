-- All statements on tasks' tables, apart from the one multi-row INSERT that commits.py builds for a batch.
-- Each block opens with `-- name: purpose`.

-- task_number: the number of a task, by its id
SELECT task_no FROM task WHERE id = ?;

-- newest: the newest append that begins in a range of keys (the whole journal's: its head)
SELECT key, last_seq, last_digest FROM append WHERE key BETWEEN ? AND ? ORDER BY key DESC LIMIT 1;

-- page: the next appends of a journal; parameters: first key, last possible key, rows
SELECT key, last_seq, frames, last_digest FROM append WHERE key BETWEEN ? AND ? ORDER BY key LIMIT ?;

-- insert_genesis: the empty row with which a journal begins; parameter: its key
INSERT INTO append (key, last_seq, epoch, prev_digest, last_digest, frames)
VALUES (?, 0, 0, zeroblob(32), zeroblob(32), x'');

-- insert_append: one append
INSERT INTO append (key, last_seq, epoch, prev_digest, last_digest, frames) VALUES (?, ?, ?, ?, ?, ?);

-- delete_appends: a whole journal
DELETE FROM append WHERE key BETWEEN ? AND ?;

-- lease: the lease of a task
SELECT epoch, holder, beats, until FROM lease WHERE task_no = ?;

-- lease_epoch: the epoch alone
SELECT epoch FROM lease WHERE task_no = ?;

-- insert_lease: the first grant
INSERT INTO lease (task_no, epoch, holder, beats, until) VALUES (?, ?, ?, 0, ?);

-- claim_lease: compare and swap; parameters: holder, until, task, epoch and beats it must still have (NULL: any)
UPDATE lease SET epoch = epoch + 1, holder = ?1, beats = 0, until = ?2
WHERE task_no = ?3 AND epoch = ?4 AND beats = ifnull(?5, beats);

-- renew_lease: one beat more; parameters: until, task, epoch
UPDATE lease SET beats = beats + 1, until = ? WHERE task_no = ? AND epoch = ?;

-- release_lease: nobody's from now on, the epoch stays
UPDATE lease SET holder = NULL WHERE task_no = ? AND epoch = ?;

-- delete_lease: with the task
DELETE FROM lease WHERE task_no = ?;

-- insert_task: a new task
INSERT INTO task (id, name, is_finished, summary) VALUES (?, ?, ?, ?);

-- update_task: a new summary
UPDATE task SET name = ?, is_finished = ?, summary = ? WHERE task_no = ?;

-- delete_task: the row of the task
DELETE FROM task WHERE task_no = ?;

-- unfinished_of_name: the task that a name belongs to
SELECT id FROM task WHERE name = ? AND is_finished = 0;

-- tasks: summaries of all tasks that have an entry, newest first
SELECT summary FROM task
WHERE EXISTS (
    SELECT 1 FROM append WHERE key BETWEEN (task_no << 40) + 1 AND task_no << 40 | 0xFFFFFFFFFF
)
ORDER BY task_no DESC;

-- task_by_id: the summary of one task, if it has an entry
SELECT summary FROM task
WHERE id = ? AND EXISTS (
    SELECT 1 FROM append WHERE key BETWEEN (task_no << 40) + 1 AND task_no << 40 | 0xFFFFFFFFFF
);

-- newest_of_name: the summary of the newest task of a name that has an entry
SELECT summary FROM task
WHERE name = ? AND EXISTS (
    SELECT 1 FROM append WHERE key BETWEEN (task_no << 40) + 1 AND task_no << 40 | 0xFFFFFFFFFF
)
ORDER BY task_no DESC LIMIT 1;

-- names_from: names in use, in order, from a prefix on
SELECT DISTINCT name FROM task
WHERE name >= ? AND EXISTS (
    SELECT 1 FROM append WHERE key BETWEEN (task_no << 40) + 1 AND task_no << 40 | 0xFFFFFFFFFF
)
ORDER BY name LIMIT ?;

-- ids_from: ids in use, in order, from a prefix on
SELECT id FROM task
WHERE id >= ? AND EXISTS (
    SELECT 1 FROM append WHERE key BETWEEN (task_no << 40) + 1 AND task_no << 40 | 0xFFFFFFFFFF
)
ORDER BY id LIMIT ?;

-- whole_blob: whether all bytes of a digest are there
SELECT blob_no FROM blob WHERE digest = ? AND is_whole = 1;

-- used_blob: where the bytes of a digest are that an append names
SELECT blob_no, size, is_packed FROM blob
WHERE digest = ? AND is_whole = 1 AND EXISTS (SELECT 1 FROM blob_use WHERE blob_use.digest = blob.digest);

-- blob_in_making: the unfinished blob of a writer; parameters: task, epoch, digest, how many parts it has so far
SELECT blob_no FROM blob
WHERE task_no = ? AND epoch = ? AND digest = ? AND is_whole = 0
    AND (SELECT count(*) FROM blob_part WHERE blob_part.blob_no = blob.blob_no) = ?
ORDER BY blob_no DESC LIMIT 1;

-- blob_parts: the bytes, in order
SELECT bytes FROM blob_part WHERE blob_no = ? ORDER BY part;

-- insert_blob: a blob without its parts; parameters: digest, size, is_packed, is_whole, task, epoch
INSERT INTO blob (digest, size, is_packed, is_whole, task_no, epoch) VALUES (?, ?, ?, ?, ?, ?);

-- insert_blob_part: a piece of a blob
INSERT INTO blob_part (blob_no, part, bytes) VALUES (?, ?, ?);

-- finish_blob: all parts are there
UPDATE blob SET is_whole = 1 WHERE blob_no = ?;

-- delete_blob: the row of a blob
DELETE FROM blob WHERE blob_no = ?;

-- delete_blob_parts: its bytes
DELETE FROM blob_part WHERE blob_no = ?;

-- stage_blob: an append to come names this blob; parameters: task, digest, epoch
INSERT OR REPLACE INTO blob_staged (task_no, digest, epoch) VALUES (?, ?, ?);

-- unstage_blob: the append is there
DELETE FROM blob_staged WHERE task_no = ? AND digest = ?;

-- use_blob: an append of this task names this blob
INSERT OR IGNORE INTO blob_use (task_no, digest) VALUES (?, ?);

-- delete_uses: with the task
DELETE FROM blob_use WHERE task_no = ?;

-- delete_staged: with the task
DELETE FROM blob_staged WHERE task_no = ?;

-- sweep_staged: forget what is staged under leases that nobody holds any more
DELETE FROM blob_staged
WHERE NOT EXISTS (
    SELECT 1 FROM lease
    WHERE lease.task_no = blob_staged.task_no AND lease.epoch = blob_staged.epoch AND holder IS NOT NULL
);

-- unreferenced_blobs: whole ones that nothing names, and unfinished ones whose writer is gone
SELECT blob_no FROM blob
WHERE CASE is_whole
    WHEN 1 THEN
        NOT EXISTS (SELECT 1 FROM blob_use WHERE blob_use.digest = blob.digest)
        AND NOT EXISTS (SELECT 1 FROM blob_staged WHERE blob_staged.digest = blob.digest)
    ELSE NOT EXISTS (
        SELECT 1 FROM lease
        WHERE lease.task_no = blob.task_no AND lease.epoch = blob.epoch AND holder IS NOT NULL
    )
END;

-- insert_snapshot: the head, last of all
INSERT INTO snapshot (task_no, seq, branch, fold_version, digest, size, parts) VALUES (?, ?, ?, ?, ?, ?, ?);

-- insert_snapshot_part: one part
INSERT INTO snapshot_part (task_no, seq, part, bytes) VALUES (?, ?, ?, ?);

-- snapshots: heads, newest first
SELECT seq, branch, fold_version, digest, size FROM snapshot WHERE task_no = ? ORDER BY seq DESC;

-- snapshot_size: how many parts and bytes a whole snapshot has
SELECT parts, size FROM snapshot WHERE task_no = ? AND seq = ?;

-- snapshot_parts: the next parts; parameters: task, seq, first part, rows
SELECT bytes FROM snapshot_part WHERE task_no = ? AND seq = ? AND part >= ? ORDER BY part LIMIT ?;

-- snapshot_seqs: all seqs of which there is a head or a part
SELECT seq FROM snapshot WHERE task_no = ?1 UNION SELECT seq FROM snapshot_part WHERE task_no = ?1;

-- delete_snapshot: a head
DELETE FROM snapshot WHERE task_no = ? AND seq = ?;

-- delete_snapshot_parts: its parts
DELETE FROM snapshot_part WHERE task_no = ? AND seq = ?;

-- delete_snapshots: all heads of a task
DELETE FROM snapshot WHERE task_no = ?;

-- delete_all_snapshot_parts: all parts of a task
DELETE FROM snapshot_part WHERE task_no = ?;

-- post_message: leave it, unless its id is known
INSERT OR IGNORE INTO message (task_no, id, is_waiting, what, text, key) VALUES (?, ?, 1, ?, ?, ?);

-- consume_message: its append records it
UPDATE message SET is_waiting = 0, text = '' WHERE task_no = ? AND id = ?;

-- waiting_messages: of one task, oldest first
SELECT id, what, text, key FROM message WHERE task_no = ? AND is_waiting = 1 ORDER BY message_no;

-- delete_messages: with the task
DELETE FROM message WHERE task_no = ?;

-- count_blobs: how many whole blobs there are, and their bytes before packing
SELECT count(*), coalesce(sum(size), 0) FROM blob WHERE is_whole = 1;

-- count_snapshots: how many snapshots there are, and their bytes
SELECT count(*), coalesce(sum(size), 0) FROM snapshot;
