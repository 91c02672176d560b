-- The tables. Names are bytes (VARBINARY compares them as they are: no case, no padding), times are microseconds of the
-- server's clock, primary keys are made by the program. Every change of a line's tickets happens under the lock of its row
-- in aiodlock_lines, so that no two verbs of a line meet anywhere else; so with a stock and its row in aiodlock_stocks.

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

-- name: followers
-- Since version 3. The only one who waits behind a lone ticket stands in the line's row, too: handing on writes that and mail.
ALTER TABLE aiodlock_lines
    ADD COLUMN follower        VARBINARY(128) NOT NULL DEFAULT '', -- its id; '' for nobody, or for one with a row of its own
    ADD COLUMN follower_weight BIGINT NOT NULL DEFAULT 0,
    ADD COLUMN follower_since  BIGINT NOT NULL DEFAULT 0,
    ADD COLUMN follower_ends   BIGINT NOT NULL DEFAULT 0,
    ADD COLUMN follower_client VARBINARY(16) NOT NULL DEFAULT '',
    ADD COLUMN follower_owner  VARBINARY(1024) NOT NULL DEFAULT ''

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

-- name: asked
-- Since version 4. Who cannot be called is told by its next renewal that it is asked to go.
ALTER TABLE aiodlock_tickets ADD COLUMN asked VARBINARY(1024) NULL -- why; NULL: nobody asked

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

-- name: stocks
CREATE TABLE IF NOT EXISTS aiodlock_stocks (
    stock     VARBINARY(255) NOT NULL PRIMARY KEY, -- its key
    segments  BIGINT NOT NULL,
    memory    BIGINT NOT NULL,
    once      TINYINT NOT NULL,                  -- one order per buyer
    outbox    TINYINT NOT NULL,
    is_open   TINYINT NOT NULL DEFAULT 0,
    rest      BIGINT NOT NULL DEFAULT 0,         -- in all segments together
    loaded    BIGINT NOT NULL DEFAULT 0,
    accepted  BIGINT NOT NULL DEFAULT 0,
    returned  BIGINT NOT NULL DEFAULT 0,
    forgotten BIGINT NOT NULL DEFAULT 0,
    kept      BIGINT NOT NULL DEFAULT 0,         -- everything in it is over by then
    KEY forgotten (kept)
) ENGINE = InnoDB

-- name: stock_segments
CREATE TABLE IF NOT EXISTS aiodlock_stock_segments (
    stock   VARBINARY(255) NOT NULL,
    segment INT NOT NULL,                        -- from 0
    rest    BIGINT NOT NULL,
    PRIMARY KEY (stock, segment)
) ENGINE = InnoDB

-- name: stock_orders
CREATE TABLE IF NOT EXISTS aiodlock_stock_orders (
    stock    VARBINARY(255) NOT NULL,
    id       VARBINARY(255) NOT NULL,
    state    TINYINT NOT NULL,                   -- 1 taken, 2 reserved, 3 returned, 4 refused
    buyer    VARBINARY(255) NOT NULL,
    quantity BIGINT NOT NULL,
    segment  INT NOT NULL,
    rest     BIGINT NOT NULL,                    -- what its answer says is left
    ends     BIGINT NOT NULL,                    -- when it goes back if it is reserved, else when it is forgotten
    other    VARBINARY(255) NOT NULL,            -- the order that was in its way
    PRIMARY KEY (stock, id),
    KEY by_end (stock, state, ends),
    KEY by_buyer (stock, buyer)
) ENGINE = InnoDB

-- name: stock_operations
CREATE TABLE IF NOT EXISTS aiodlock_stock_operations (
    stock     VARBINARY(255) NOT NULL,
    operation VARBINARY(255) NOT NULL,           -- a load or add that was done
    ends      BIGINT NOT NULL,
    PRIMARY KEY (stock, operation)
) ENGINE = InnoDB

-- name: stock_outbox
CREATE TABLE IF NOT EXISTS aiodlock_stock_outbox (
    stock     VARBINARY(255) NOT NULL,
    number    BIGINT NOT NULL AUTO_INCREMENT,    -- never used twice: a relay may know it after all was forgotten
    movements MEDIUMTEXT CHARACTER SET ascii NOT NULL,
    PRIMARY KEY (stock, number),
    UNIQUE KEY by_number (number)
) ENGINE = InnoDB

-- name: versions
CREATE TABLE IF NOT EXISTS aiodlock_versions (
    version INT NOT NULL PRIMARY KEY             -- of tables and procedures; written when all of them are there
) ENGINE = InnoDB
