"""Every maximum and every default period, as a number with its unit. Read by all layers; changed by configuration only.

Generation 1 of the limits (perdure 0.1). A later generation may raise them; a task remembers nothing of them.
"""

from __future__ import annotations

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

# --- values ---------------------------------------------------------------------------------------------------------
NESTING_MAX: Final = 200
LEAF_BYTES_MAX: Final = 16 * MIB
STATE_BYTES_MAX: Final = 64 * MIB
ENTRY_BYTES_MAX: Final = 1 * MIB  # a value whose bytes pass this is put aside as a blob, whole
BLOB_FROM_BYTES: Final = 4 * KIB  # a str or bytes leaf over this becomes a blob
REFERENCE_FROM_BYTES: Final = 64  # a patch leaf from this size on is written as a reference into its outcome
COMPRESS_FROM_BYTES: Final = 4 * KIB
NAME_BYTES_MAX: Final = 200
KEY_BYTES_MAX: Final = 1 * KIB
ERROR_MESSAGE_BYTES_MAX: Final = 8 * KIB
TOOL_OUTPUT_BYTES_MAX: Final = 64 * MIB
SECRET_BYTES_MAX: Final = 64 * KIB
SECRETS_MAX: Final = 256  # that one process knows, texts that have changed included

# --- actions --------------------------------------------------------------------------------------------------------
ACTION_TIMEOUT_S: Final = 600.0
PARALLEL_ACTIONS_MAX: Final = 64
LAZY_INTENT_S: Final = 0.05  # a free action that takes longer gets its intent committed alone
TICK_S: Final = 0.05  # one ticker per runtime drives time-outs, lazy intents, the inbox and lease renewals
EDIT_WAIT_S: Final = 1.0  # how long an outcome waits for an open edit before it is written without its patch
PROBE_ATTEMPTS_MAX: Final = 3

# --- recovery -------------------------------------------------------------------------------------------------------
FAILURES_MAX: Final = 3
RETRIES_MAX: Final = 3
RETRY_BASE_S: Final = 0.5
RETRY_CEILING_S: Final = 60.0
OUTAGE_S: Final = 6 * 3_600.0  # how long what is called may be away before a person is asked
OUTAGE_CEILING_S: Final = 240.0  # of one wait in an outage: under WAIT_INLINE_S, so that the process stays
PASSING_MAX: Final = 1_000  # passing faults of a task since a person has looked
PROVIDER_FAULTS_MAX: Final = 300  # those of one provider
TOLD_WAIT_MAX_S: Final = 7 * 86_400.0  # a longer one is no answer
REASKS_MAX: Final = 2  # for answers that were refused, before they count alone
STUCK_PATIENCE: Final = 10  # actions in a row that close a circle, before a program without strategies is left for it
NUDGES_MAX: Final = 1
ROUNDS_MAX: Final = 2  # of each strategy without verified progress
LESSON_BYTES_MAX: Final = 1 * KIB
LESSONS_TOLD_MAX: Final = 20  # of a task, the newest, in what a prompt is built from
GIST_BYTES: Final = 1 * KIB  # of an action's arguments that are kept while it is open
CRASH_LOOP_STARTS_MAX: Final = 5
COUNT_NAMES_MAX: Final = 10_000  # that one task counts under
COUNT_MAX: Final = 2**53  # as far as every reader of JSON counts
PROGRAM_CALLS_MAX: Final = 100  # of one run(); a program that rolls itself back for ever ends here
WAIT_INLINE_S: Final = 300.0

# --- health and breakers --------------------------------------------------------------------------------------------
HEALTH_WINDOW: Final = 20  # newest calls of a tool or provider that are kept
HEALTH_CALLS_MIN: Final = 6  # fewer say nothing
HEALTH_VALID_MIN: Final = 0.5  # of the calls have to succeed with something valid
HEALTH_KEYS_MAX: Final = 128  # tools and providers whose calls are kept; the oldest tool is forgotten
BREAKER_FAULTS_MAX: Final = 5  # passing faults in a row that open the breaker of a provider
BREAKER_BASE_S: Final = 10.0  # how long it stays open at first, about
BREAKER_CEILING_S: Final = 240.0
HOLD_LOOK_S: Final = 15.0  # so long a call waits for another one's end before that is written anew, at first

# --- milestones ------------------------------------------------------------------------------------------------------
DRAFT_WORDS_MIN: Final = 120  # a text with fewer is a stub
DRAFT_BYTES_MAX: Final = 4 * MIB  # a larger file is not looked at
DRAFTS_AT_ONCE_MAX: Final = 16  # that one action or check marks: who unpacks an archive has written no drafts
DRAFTS_WAITING_MAX: Final = 64  # paths whose draft waits until the step's checks pass; the oldest is forgotten
ERROR_PAGE_LETTERS_MAX: Final = 2_000  # a page with more to read is none

# --- handovers -------------------------------------------------------------------------------------------------------
HANDOVER_ITEMS_MAX: Final = 20  # of each list, the newest
HANDOVER_CALLS_KEPT: Final = 200  # with their arguments, while a journal is read
HANDOVER_TEXT_BYTES: Final = 1 * KIB  # of one text
HANDOVER_VALUE_BYTES: Final = 400  # of arguments, or one value of the state

# --- leases and inbox -----------------------------------------------------------------------------------------------
LEASE_TTL_S: Final = 30.0
LEASE_BEATS_PER_TTL: Final = 3  # so often a lease is renewed within its time to live
LEASE_CALL_MARGIN_S: Final = 5.0  # by so much a lease outlives the time-out of a call that may not be made twice
LEASE_LOOKS_PER_TTL: Final = 20  # so often a challenger looks whether the beats stand still
INBOX_POLL_S: Final = 0.25
MESSAGE_BYTES_MAX: Final = 64 * KIB
VISIT_LOOKS_MAX: Final = 10  # so often it is looked whether a visit is over in whose time a message was left
QUESTIONS_MAX: Final = 100  # asked at once
QUESTION_VALUE_BYTES: Final = 1 * KIB  # of one argument of a call that is asked about
QUESTION_GIST_BYTES: Final = 200  # of each of several questions where they are told together

# --- notices to people -----------------------------------------------------------------------------------------------
NOTICE_S: Final = 10.0  # how long one delivery may take, and how long the end of a runtime waits for the last ones
NOTICES_WAITING_MAX: Final = 64
NOTICE_HANGING_MAX: Final = 4  # deliveries whose time is over and whose thread is not

# --- threads and signals --------------------------------------------------------------------------------------------
THREAD_LEAVE_S: Final = 1.0  # how long a cancelled plain program may take to come to its next call, or to its end
STOP_GRACE_S: Final = 5.0  # after SIGTERM: how long the running action may take to end before it is cancelled

# --- stores ---------------------------------------------------------------------------------------------------------
WRITER_QUEUE_MAX: Final = 4096
BATCH_APPENDS_MAX: Final = 256
BATCH_BYTES_MAX: Final = 8 * MIB  # of one commit, and so of one append
APPEND_BYTES_AIM: Final = 4 * MIB  # what waits to be appended is handed over before it passes this
READ_PAGE_ROWS: Final = 256
STAGE_BLOBS_FROM_BYTES: Final = 256 * KIB
STORE_BUSY_S: Final = 10.0
INLINE_COMMIT_MAX_S: Final = 0.001  # commits slower than this go through the writer thread

# --- snapshots ------------------------------------------------------------------------------------------------------
SNAPSHOT_FROM_BYTES: Final = 1 * MIB
ENTRY_BYTES_COUNTED_MIN: Final = 256
SNAPSHOT_PART_BYTES: Final = 256 * KIB
SNAPSHOTS_KEPT: Final = 2

# --- files of the workspace -----------------------------------------------------------------------------------------
WORKSPACE_FILE_BYTES_MAX: Final = 64 * MIB  # larger files are listed as not covered
CAPTURE_BATCH_BYTES: Final = 16 * MIB  # of content in one batch; a file larger than that is one of its own
CAPTURE_BATCH_CHANGES: Final = 10_000
CAPTURE_READS_MAX: Final = 3  # of one file that changes while it is read
PROCESSES_LOOK_S: Final = 0.05  # between two looks at the processes of a task
PROCESSES_LOOKS_MAX: Final = 200  # until all of them are held still
PROCESSES_GRACE_S: Final = 5.0  # between SIGTERM and SIGKILL, before files go back
PROCESSES_KILL_S: Final = 10.0  # how long the kernel may take to let go of what is killed

# --- files of the log -----------------------------------------------------------------------------------------------
LOG_BEAT_S: Final = 0.25  # how far the files may be behind the journal
LOG_FILE_BYTES: Final = 10_000_000
LOG_FILES_MAX: Final = 5
LOG_FILE_SPAN_S: Final = 7 * 86_400.0  # of a task's time in one file
LOG_LAST_WAIT_S: Final = 2.0  # how long the end of a run waits for its last lines
LOG_RETRY_S: Final = 10.0  # after the files could not be written

# --- the ready-made agent -------------------------------------------------------------------------------------------
AGENT_MOVES_MAX: Final = 100_000
READ_FILE_BYTES_MAX: Final = 8 * MIB  # of text that one call of read_file returns; a blob takes twice of that
SCANNED_FILE_BYTES_MAX: Final = 256 * MIB  # a larger one is not looked through for some of its lines
SEARCHED_FILE_BYTES_MAX: Final = 8 * MIB
FILE_SEARCH_S: Final = 20.0  # a pattern can take for ever
SEARCH_LINE_LETTERS: Final = 300  # of one line that was found
MATCHES_MAX: Final = 1_000
LISTED_MAX: Final = 5_000  # paths of one list_folder
COPIED_MAX: Final = 10_000  # files of one copy_file
COPIED_BYTES_MAX: Final = 1024 * MIB
LINKS_FOLLOWED_MAX: Final = 40  # on the way to one file, as Linux has it
FOREIGN_FILE_BYTES_MAX: Final = 64 * MIB  # of a file that another agent wrote

REPLY_BYTES_MAX: Final = 16 * MIB  # that a service sends for one reply; one of 4,096 tokens has about one
REPLY_CALLS_MAX: Final = 256  # of one reply that are made
ARGUMENTS_NESTING_MAX: Final = 100  # of a call: its state and conversation stand around it in what is stored

# --- pages and searches ---------------------------------------------------------------------------------------------
PAGE_S: Final = 60.0  # for one page, redirects included
PAGE_CONNECT_S: Final = 10.0
PAGE_READ_S: Final = 20.0  # between two pieces of an answer
PAGE_BYTES_MAX: Final = 4 * MIB  # of one answer, unpacked; what is beyond is not read
PAGE_ERROR_BYTES_MAX: Final = 64 * KIB  # of an answer that tells of an error
PAGE_REDIRECTS_MAX: Final = 10
PAGE_ADDRESSES_MAX: Final = 4  # of one host that are tried, one after the other
PAGE_TEXT_LETTERS_MAX: Final = 200_000
PAGE_PASSAGES_LETTERS: Final = 12_000  # of a long page, where it is said what is looked for
PAGE_LINKS_MAX: Final = 50
SEARCH_S: Final = 30.0
SEARCH_RESULTS_MAX: Final = 20

# --- MCP servers ----------------------------------------------------------------------------------------------------
MCP_OPEN_S: Final = 60.0  # from the start of a server until its tools are known
MCP_CLOSE_S: Final = 10.0  # the client's own steps take about seven: stdin closed, SIGTERM, SIGKILL
MCP_TOOLS_MAX: Final = 500  # of one server
MCP_PAGES_MAX: Final = 50  # of one list of tools
MCP_STDERR_BYTES: Final = 2 * KIB  # of what a server wrote last, for people
MCP_TEXT_BYTES_MAX: Final = 8 * MIB  # of one result

# --- programs that the ready-made agent runs ------------------------------------------------------------------------
COMMAND_S: Final = 120  # how long one may take, where the call does not say
COMMAND_MAX_S: Final = 600
COMMAND_LINE_BYTES: Final = 128 * KIB - 1  # of one argument of a program, as Linux has it
COMMAND_NESTING_MAX: Final = 16  # of commands in commands, as permissions read a line
COMMAND_END_S: Final = 30.0  # until all that it has started is over, and its output read
COMMAND_CPU_S: Final = 600  # of each of its processes
COMMAND_TASKS_MAX: Final = 512  # processes and threads at once
COMMAND_MEMORY_BYTES: Final = 4096 * MIB  # of each of its processes, and of all together
COMMAND_FILE_BYTES: Final = 1024 * MIB  # of one file that it writes
COMMAND_TMP_BYTES: Final = 256 * MIB  # of its private /tmp
COMMAND_OPEN_FILES: Final = 1024
COMMAND_OUTPUT_BYTES: Final = 4 * MIB  # that is kept whole; of more, half of it from the beginning, half from the end
COMMAND_OUTPUT_READ_BYTES: Final = 256 * MIB  # one that says more is ended
