-- The tables. Names are bytes (VARBINARY compares them as they are: no case, no padding), times are microseconds of the
-- server's clock, primary keys are made by the program. Every change of a line's tickets happens under the lock of its row
-- in aiodlock_lines, so that no two verbs of a line meet anywhere else.

-- name: lines
CREATE TABLE IF NOT EXISTS aiodlock_lines (
    line    VARBINARY(320) NOT NULL PRIMARY KEY, -- kind, colon, key
    size    BIGINT NOT NULL,
    used    BIGINT NOT NULL DEFAULT 0,           -- what those inside weigh
    inside  BIGINT NOT NULL DEFAULT 0,
    waiting BIGINT NOT NULL DEFAULT 0,
    serial  BIGINT NOT NULL DEFAULT 0,           -- of the last who came
    last    BIGINT NOT NULL DEFAULT 0,           -- last epoch
    soonest BIGINT NOT NULL,                     -- no life or tombstone ends before; lives grow, so it may be too early
    graves  TINYINT NOT NULL DEFAULT 0,          -- whether there may be tombstones
    kept    BIGINT NOT NULL,                     -- everything in the line is over by then; set late, so that it is set seldom
    -- Who came to nobody stands here, not among the tickets: weight used, epoch last, ends soonest. One row, one commit.
    lone        VARBINARY(128) NOT NULL DEFAULT '', -- its id; '' for nobody, or for tickets that have rows of their own
    lone_since  BIGINT NOT NULL DEFAULT 0,
    lone_client VARBINARY(16) NOT NULL DEFAULT '',
    lone_owner  VARBINARY(1024) NOT NULL DEFAULT '',
    KEY forgotten (kept)
) ENGINE = InnoDB

-- name: tickets
CREATE TABLE IF NOT EXISTS aiodlock_tickets (
    line   VARBINARY(320) NOT NULL,
    id     VARBINARY(128) NOT NULL,
    state  TINYINT NOT NULL,                     -- 0 waits, 1 inside; tombstones: 2 buried, 3 expired
    weight BIGINT NOT NULL,
    serial BIGINT NOT NULL,
    epoch  BIGINT NOT NULL,                      -- 0 while it waits
    since  BIGINT NOT NULL,
    ends   BIGINT NOT NULL,
    client VARBINARY(16) NOT NULL,               -- whom to call; '' nobody
    owner  VARBINARY(1024) NOT NULL,
    PRIMARY KEY (line, id),
    KEY in_order (line, state, serial),
    KEY by_end (line, state, ends)
) ENGINE = InnoDB

-- name: mail
CREATE TABLE IF NOT EXISTS aiodlock_mail (
    id      BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    client  VARBINARY(16) NOT NULL,
    word    CHAR(1) CHARACTER SET ascii NOT NULL, -- I inside, C company, G gone, A asked to go, O opened
    line    VARBINARY(320) NOT NULL,
    ticket  VARBINARY(128) NOT NULL,
    epoch   BIGINT NOT NULL,
    company TINYINT NOT NULL,
    reason  VARBINARY(1024) NOT NULL,
    ends    BIGINT NOT NULL,                     -- nobody reads it later
    KEY by_client (client)
) ENGINE = InnoDB

-- name: latches
CREATE TABLE IF NOT EXISTS aiodlock_latches (
    line VARBINARY(320) NOT NULL PRIMARY KEY,
    rest BIGINT NOT NULL,
    ends BIGINT NOT NULL,
    KEY forgotten (ends)
) ENGINE = InnoDB

-- name: latch_marks
CREATE TABLE IF NOT EXISTS aiodlock_latch_marks (
    line VARBINARY(320) NOT NULL,
    mark VARBINARY(256) NOT NULL,                -- o and an operation that was counted, w and a client that watches
    PRIMARY KEY (line, mark)
) ENGINE = InnoDB

-- name: versions
CREATE TABLE IF NOT EXISTS aiodlock_versions (
    version INT NOT NULL PRIMARY KEY             -- of tables and procedures; written when all of them are there
) ENGINE = InnoDB
