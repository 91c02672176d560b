-- The verbs of a stock: one procedure each, one short transaction that no client can hold open. Parts are included textually, as
-- in verbs.sql; p_ is a parameter, v_ a variable. Times are microseconds.
--
-- p_stock, p_segments, p_memory, p_once, p_outbox    the key and its terms: the first arguments of every procedure
-- states of an order                                 1 taken, 2 reserved, 3 returned, 4 refused
-- movements, in the outbox                           five elements each, as JSON without brackets: move, order, buyer, quantity, segment
-- answer                                             '' and JSON; or 'differs' and the terms of the stock: nothing was done
--
-- Names of orders and buyers travel as hexadecimal digits, so that no character set and no collation touches them. Whoever does
-- anything to a stock locks its row first, always by the primary key: no two verbs of a stock meet anywhere else, so nobody can
-- deadlock with anybody, and all segments are seen at one instant.

-- part: goods
    DECLARE v_segments, v_memory, v_once, v_outbox, v_open, v_rest, v_loaded, v_accepted, v_returned, v_forgotten, v_kept BIGINT;
    DECLARE v_now, v_until, v_due, v_over, v_sum, v_steps BIGINT DEFAULT 0;
    DECLARE v_state, v_had, v_segment, v_left, v_ends BIGINT;
    DECLARE v_id, v_owner, v_other VARBINARY(255);
    DECLARE v_moved, v_text MEDIUMTEXT CHARACTER SET ascii;

-- part: lock
-- The clock is read behind the lock.
    SELECT segments, memory, once, outbox, is_open, rest, loaded, accepted, returned, forgotten, kept
      INTO v_segments, v_memory, v_once, v_outbox, v_open, v_rest, v_loaded, v_accepted, v_returned, v_forgotten, v_kept
      FROM aiodlock_stocks WHERE stock = p_stock FOR UPDATE;
    SET v_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));

-- part: begin
    -- include undo
    -- include enter

-- part: undo
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;

-- part: enter
-- Lock the stock, compare the terms, and do what is due. One that is over is not there any more.
    START TRANSACTION;
    -- include lock
    IF v_kept <= v_now THEN
        DELETE FROM aiodlock_stock_orders WHERE stock = p_stock;
        DELETE FROM aiodlock_stock_operations WHERE stock = p_stock;
        DELETE FROM aiodlock_stock_segments WHERE stock = p_stock;
        DELETE FROM aiodlock_stocks WHERE stock = p_stock;
        SET v_segments = NULL;
    END IF;
    IF v_segments IS NULL THEN
        -- Two who make it at once meet at the row, and the second finds what the first wrote.
        INSERT INTO aiodlock_stocks (stock, segments, memory, once, outbox)
        VALUES (p_stock, p_segments, p_memory, p_once, p_outbox) ON DUPLICATE KEY UPDATE stock = p_stock;
        IF ROW_COUNT() = 1 THEN
            WHILE v_steps < p_segments DO
                INSERT INTO aiodlock_stock_segments (stock, segment, rest) VALUES (p_stock, v_steps, 0);
                SET v_steps = v_steps + 1;
            END WHILE;
        END IF;
        -- include lock
    END IF;
    IF NOT (v_segments = p_segments AND v_memory = p_memory AND v_once = p_once AND v_outbox = p_outbox) THEN
        COMMIT;
        SELECT 'differs', CONCAT('[', CONCAT_WS(',', v_segments, v_memory, v_once, v_outbox), ']');
        LEAVE goods;
    END IF;
    -- include do_due

-- part: do_due
-- Some hundreds at most of what is due: v_due reservations go back, v_over orders are forgotten.
    SET v_due = 0, v_over = 0;
    IF EXISTS(SELECT 1 FROM aiodlock_stock_orders WHERE stock = p_stock AND state IN (1, 2, 3, 4) AND ends <= v_now) THEN
        SELECT COUNT(*), MAX(ends) INTO v_due, v_until FROM
            (SELECT ends FROM aiodlock_stock_orders WHERE stock = p_stock AND state = 2 AND ends <= v_now
              ORDER BY ends LIMIT 256) AS some;
        IF v_due > 0 THEN
            SELECT SUM(quantity), GROUP_CONCAT(
                   CONCAT('"returned","', HEX(id), '","', HEX(buyer), '",', quantity, ',', segment) ORDER BY ends, id)
              INTO v_sum, v_text FROM aiodlock_stock_orders WHERE stock = p_stock AND state = 2 AND ends <= v_until;
            UPDATE aiodlock_stock_segments AS here JOIN
                   (SELECT segment, SUM(quantity) AS quantity FROM aiodlock_stock_orders
                     WHERE stock = p_stock AND state = 2 AND ends <= v_until GROUP BY segment) AS back
                ON back.segment = here.segment
               SET here.rest = here.rest + back.quantity WHERE here.stock = p_stock;
            UPDATE aiodlock_stock_orders SET state = 3, ends = v_now + v_memory
             WHERE stock = p_stock AND state = 2 AND ends <= v_until;
            SET v_rest = v_rest + v_sum, v_returned = v_returned + v_sum, v_moved = CONCAT_WS(',', v_moved, v_text);
        END IF;
        SELECT COUNT(*), MAX(ends) INTO v_over, v_until FROM
            (SELECT ends FROM aiodlock_stock_orders WHERE stock = p_stock AND state = 1 AND ends <= v_now
              ORDER BY ends LIMIT 256) AS some;
        SELECT COALESCE(SUM(quantity), 0) INTO v_sum
          FROM aiodlock_stock_orders WHERE stock = p_stock AND state = 1 AND ends <= v_until;
        DELETE FROM aiodlock_stock_orders WHERE stock = p_stock AND state = 1 AND ends <= v_until;
        SET v_forgotten = v_forgotten + v_sum;
        DELETE FROM aiodlock_stock_orders WHERE stock = p_stock AND state IN (3, 4) AND ends <= v_now LIMIT 256;
    END IF;

-- part: find
-- The order v_id; v_state stays NULL where there is none. One whose time is over is the first of what is due.
    REPEAT
        SET v_state = NULL, v_had = 0;
        SELECT state, buyer, quantity, segment, rest, ends, other
          INTO v_state, v_owner, v_had, v_segment, v_left, v_ends, v_other
          FROM aiodlock_stock_orders WHERE stock = p_stock AND id = v_id;
        IF v_state IS NOT NULL AND v_ends <= v_now THEN
            UPDATE aiodlock_stock_orders SET ends = 0 WHERE stock = p_stock AND id = v_id;
            -- include do_due
        END IF;
    UNTIL v_state IS NULL OR v_ends > v_now END REPEAT;

-- part: end
-- A closed stock is kept until all of it is over; that is set late, so that it is set seldom.
    UPDATE aiodlock_stocks
       SET is_open = v_open, rest = v_rest, loaded = v_loaded, accepted = v_accepted, returned = v_returned,
           forgotten = v_forgotten, kept = CASE WHEN v_open THEN 9000000000000000
               WHEN v_kept < v_now + 2 * v_memory THEN v_now + 3 * v_memory ELSE v_kept END
     WHERE stock = p_stock;
    IF v_outbox AND v_moved IS NOT NULL THEN
        INSERT INTO aiodlock_stock_outbox (stock, movements) VALUES (p_stock, v_moved);
    END IF;
    COMMIT;

-- name: stock_take
-- Take for many orders, in the order in which they are asked for: together where that is the same, else one by one.
-- p_takes  JSON: for each order [order, buyer, quantity, home segment, time to hold or 0 for good, 1 if it was sent before]
-- answer   three elements for each: 1, segment, left there: taken; 2, left, 0: sold out; 3, order, buyer: another one is in its way;
--          4, quantity, 0: it was put back
CREATE PROCEDURE aiodlock_stock_take(
    IN p_stock VARBINARY(255), IN p_segments BIGINT, IN p_memory BIGINT, IN p_once TINYINT, IN p_outbox TINYINT,
    IN p_takes MEDIUMTEXT CHARACTER SET ascii)
SQL SECURITY INVOKER
goods: BEGIN
    DECLARE v_buyer VARBINARY(255);
    DECLARE v_quantity, v_home, v_hold, v_again, v_some, v_lack, v_spare, v_orders, v_buyers, v_known BIGINT;
    DECLARE v_count BIGINT DEFAULT JSON_LENGTH(p_takes);
    DECLARE v_answer, v_answers MEDIUMTEXT CHARACTER SET ascii;
    -- include goods
    DECLARE v_takes CURSOR FOR
        SELECT UNHEX(take.id), UNHEX(take.buyer), take.quantity, take.home, take.hold, take.again FROM
        -- include takes
         ORDER BY take.number;
    -- include begin
    IF v_count > 3 THEN
        -- include take_all
    END IF;
    IF v_count > 0 THEN
        OPEN v_takes;
        WHILE v_count > 0 DO
            SET v_count = v_count - 1;
            FETCH v_takes INTO v_id, v_buyer, v_quantity, v_home, v_hold, v_again;
            -- include find
            IF v_state IS NULL THEN
                -- include serve
            ELSEIF v_state = 3 THEN
                SET v_answer = CONCAT('4,', v_had, ',0');
            ELSEIF v_state = 4 THEN
                SET v_answer = IF(v_other = '', CONCAT('2,', v_left, ',0'), CONCAT('3,"', HEX(v_other), '","', HEX(v_owner), '"'));
            ELSEIF v_owner = v_buyer AND v_had = v_quantity THEN
                IF v_hold = 0 THEN
                    -- include keep
                END IF;
                SET v_answer = CONCAT('1,', v_segment, ',', v_left);
            ELSE
                SET v_answer = CONCAT('3,"', HEX(v_id), '","', HEX(v_owner), '"');
            END IF;
            SET v_answers = CONCAT_WS(',', v_answers, v_answer);
        END WHILE;
        CLOSE v_takes;
    END IF;
    -- include end
    SELECT '', CONCAT('[', COALESCE(v_answers, ''), ']');
END

-- part: keep
-- A reservation becomes an order that stays.
    IF v_state = 2 THEN
        UPDATE aiodlock_stock_orders SET state = 1, ends = v_now + v_memory WHERE stock = p_stock AND id = v_id;
        SET v_moved = CONCAT_WS(',', v_moved, CONCAT(
            '"confirmed","', HEX(v_id), '","', HEX(v_owner), '",', v_had, ',', v_segment));
    END IF;

-- part: takes
        JSON_TABLE(p_takes, '$[*]' COLUMNS (
            number FOR ORDINALITY, id VARCHAR(510) PATH '$[0]', buyer VARCHAR(510) PATH '$[1]', quantity BIGINT PATH '$[2]',
            home BIGINT PATH '$[3]', hold BIGINT PATH '$[4]', again BIGINT PATH '$[5]')) AS take

-- part: take_all
-- Most calls: nobody in it is known, and each home has enough for all who ask there, or there is too little for any. The same as
-- one after the other, by a handful of statements instead of a handful for each; then no order is left for that.
    SELECT COUNT(DISTINCT take.id), COUNT(DISTINCT take.buyer), COUNT(known.id), MIN(take.quantity), SUM(take.quantity), MAX(take.again)
      INTO v_orders, v_buyers, v_known, v_quantity, v_sum, v_again FROM
        -- include takes
      LEFT JOIN aiodlock_stock_orders AS known ON known.stock = p_stock AND known.id = UNHEX(take.id);
    IF v_once THEN
        SELECT v_known + v_count - v_buyers + COUNT(*) INTO v_known FROM
        -- include takes
          STRAIGHT_JOIN aiodlock_stock_orders AS known FORCE INDEX (by_buyer)
             ON known.stock = p_stock AND known.buyer = UNHEX(take.buyer) AND known.state IN (1, 2);
    END IF;
    SET v_known = v_known + v_count - v_orders;
    IF v_known = 0 AND NOT v_again AND (NOT v_open OR v_rest < v_quantity AND v_due < 256) THEN
        SET v_answers = CONCAT('2,', v_rest, ',0', REPEAT(CONCAT(',2,', v_rest, ',0'), v_count - 1)), v_count = 0;
    ELSEIF v_known = 0 AND v_open AND v_rest >= v_sum THEN
        SELECT MIN(here.rest - asked.quantity) INTO v_spare FROM
            (SELECT take.home, SUM(take.quantity) AS quantity FROM
        -- include takes
              GROUP BY take.home) AS asked
          JOIN aiodlock_stock_segments AS here ON here.stock = p_stock AND here.segment = asked.home;
        IF v_spare >= 0 THEN
            -- include give_all
        END IF;
    END IF;

-- part: give_all
-- Orders first: what each of them leaves is counted down from what its home has before.
    INSERT INTO aiodlock_stock_orders (stock, id, state, buyer, quantity, segment, rest, ends, other)
    SELECT p_stock, UNHEX(take.id), IF(take.hold, 2, 1), UNHEX(take.buyer), take.quantity, take.home,
           here.rest - SUM(take.quantity) OVER (PARTITION BY take.home ORDER BY take.number),
           v_now + IF(take.hold, take.hold, v_memory), '' FROM
        -- include takes
      JOIN aiodlock_stock_segments AS here ON here.stock = p_stock AND here.segment = take.home;
    UPDATE aiodlock_stock_segments AS here JOIN
           (SELECT take.home, SUM(take.quantity) AS quantity FROM
        -- include takes
             GROUP BY take.home) AS asked ON asked.home = here.segment
       SET here.rest = here.rest - asked.quantity WHERE here.stock = p_stock AND here.rest >= asked.quantity;
    SELECT GROUP_CONCAT('1,', known.segment, ',', known.rest ORDER BY take.number), GROUP_CONCAT(
           IF(take.hold, '"reserved","', '"taken","'), take.id, '","', take.buyer, '",', take.quantity, ',', take.home
           ORDER BY take.number)
      INTO v_answers, v_text FROM
        -- include takes
      JOIN aiodlock_stock_orders AS known ON known.stock = p_stock AND known.id = UNHEX(take.id);
    SET v_rest = v_rest - v_sum, v_accepted = v_accepted + v_sum, v_moved = CONCAT_WS(',', v_moved, v_text), v_count = 0;

-- part: serve
-- An order that is not known. A refusal is remembered if another copy of the order may be on its way.
    SET v_other = '';
    IF v_once THEN
        REPEAT
            SET v_other = '', v_ends = v_now + 1;
            SELECT id, ends INTO v_other, v_ends
              FROM aiodlock_stock_orders FORCE INDEX (by_buyer)
             WHERE stock = p_stock AND buyer = v_buyer AND state IN (1, 2) LIMIT 1;
            IF v_ends <= v_now THEN
                UPDATE aiodlock_stock_orders SET ends = 0 WHERE stock = p_stock AND id = v_other;
                -- include do_due
            END IF;
        UNTIL v_ends > v_now END REPEAT;
    END IF;
    -- Nobody is refused what has gone back, however many reservations ended at once: fewer than a step takes means none is left.
    WHILE v_rest < v_quantity AND v_due >= 256 DO
        -- include do_due
    END WHILE;
    IF v_other = '' AND v_open AND v_rest >= v_quantity THEN
        -- include give
        SET v_answer = CONCAT('1,', v_segment, ',', v_left);
    ELSE
        SET v_answer = IF(v_other = '', CONCAT('2,', v_rest, ',0'), CONCAT('3,"', HEX(v_other), '","', HEX(v_buyer), '"'));
        IF v_again THEN
            INSERT INTO aiodlock_stock_orders (stock, id, state, buyer, quantity, segment, rest, ends, other)
            VALUES (p_stock, v_id, 4, v_buyer, 0, 0, v_rest, v_now + v_memory, v_other);
        END IF;
    END IF;

-- part: give
-- From home; from the next one around that has enough; or from home, filled up from the others.
    SET v_segment = v_home;
    UPDATE aiodlock_stock_segments SET rest = LAST_INSERT_ID(rest - v_quantity)
     WHERE stock = p_stock AND segment = v_segment AND rest >= v_quantity;
    IF ROW_COUNT() = 0 THEN
        SET v_segment = NULL;
        SELECT segment INTO v_segment FROM aiodlock_stock_segments
         WHERE stock = p_stock AND rest >= v_quantity ORDER BY segment < v_home, segment LIMIT 1;
        IF v_segment IS NULL THEN
            SELECT v_home, v_quantity - rest INTO v_segment, v_lack
              FROM aiodlock_stock_segments WHERE stock = p_stock AND segment = v_home;
            UPDATE aiodlock_stock_segments SET rest = v_quantity WHERE stock = p_stock AND segment = v_home;
            WHILE v_lack > 0 DO
                SET v_some = 0;
                SELECT segment, LEAST(rest, v_lack) INTO v_left, v_some FROM aiodlock_stock_segments
                 WHERE stock = p_stock AND rest > 0 AND segment <> v_home ORDER BY segment < v_home, segment LIMIT 1;
                IF v_some = 0 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the segments have less than the stock'; END IF;
                UPDATE aiodlock_stock_segments SET rest = rest - v_some WHERE stock = p_stock AND segment = v_left;
                SET v_lack = v_lack - v_some;
            END WHILE;
        END IF;
        UPDATE aiodlock_stock_segments SET rest = LAST_INSERT_ID(rest - v_quantity)
         WHERE stock = p_stock AND segment = v_segment AND rest >= v_quantity;
    END IF;
    SET v_left = LAST_INSERT_ID(), v_rest = v_rest - v_quantity, v_accepted = v_accepted + v_quantity;
    INSERT INTO aiodlock_stock_orders (stock, id, state, buyer, quantity, segment, rest, ends, other)
    VALUES (p_stock, v_id, IF(v_hold, 2, 1), v_buyer, v_quantity, v_segment, v_left, v_now + IF(v_hold, v_hold, v_memory), '');
    SET v_moved = CONCAT_WS(',', v_moved, CONCAT(
        IF(v_hold, '"reserved","', '"taken","'), HEX(v_id), '","', HEX(v_buyer), '",', v_quantity, ',', v_segment));

-- name: stock_confirm
-- Keep a reservation for good.
-- answer   ["t", segment, left there]: it has its articles; ["r", quantity]: it is too late, or there is no such order;
--          ["a", order, buyer]: it is another buyer's
CREATE PROCEDURE aiodlock_stock_confirm(
    IN p_stock VARBINARY(255), IN p_segments BIGINT, IN p_memory BIGINT, IN p_once TINYINT, IN p_outbox TINYINT,
    IN p_order VARBINARY(255), IN p_buyer VARBINARY(255))
SQL SECURITY INVOKER
goods: BEGIN
    -- include goods
    -- include begin
    SET v_id = p_order;
    -- include find
    IF v_owner = p_buyer THEN
        -- include keep
    END IF;
    -- include end
    SELECT '', CASE WHEN v_state NOT IN (1, 2) OR v_state IS NULL THEN CONCAT('["r",', v_had, ']')
        WHEN v_owner = p_buyer THEN CONCAT('["t",', v_segment, ',', v_left, ']')
        ELSE CONCAT('["a","', HEX(v_id), '","', HEX(v_owner), '"]') END;
END

-- name: stock_put_back
-- Give back what an order has; one that is not there is buried.
-- answer   ["r", quantity]; ["a", order, buyer]: it is another buyer's
CREATE PROCEDURE aiodlock_stock_put_back(
    IN p_stock VARBINARY(255), IN p_segments BIGINT, IN p_memory BIGINT, IN p_once TINYINT, IN p_outbox TINYINT,
    IN p_order VARBINARY(255), IN p_buyer VARBINARY(255))
SQL SECURITY INVOKER
goods: BEGIN
    -- include goods
    -- include begin
    SET v_id = p_order;
    -- include find
    IF v_state IN (1, 2) AND v_owner = p_buyer THEN
        -- A reservation whose time is over: what is due does the rest.
        UPDATE aiodlock_stock_orders SET state = 2, ends = 0 WHERE stock = p_stock AND id = v_id;
        -- include do_due
    ELSEIF v_state IS NULL OR v_state = 4 THEN
        REPLACE INTO aiodlock_stock_orders (stock, id, state, buyer, quantity, segment, rest, ends, other)
        VALUES (p_stock, v_id, 3, p_buyer, 0, 0, 0, v_now + v_memory, '');
    END IF;
    -- include end
    SELECT '', IF(v_state IN (1, 2) AND v_owner <> p_buyer,
        CONCAT('["a","', HEX(v_id), '","', HEX(v_owner), '"]'), CONCAT('["r",', v_had, ']'));
END

-- part: do_much_due
-- As much as does not hold the server up; the next verb goes on.
    SET v_steps = 0;
    WHILE GREATEST(v_due, v_over) >= 256 AND v_steps < 32 DO
        SET v_steps = v_steps + 1;
        -- include do_due
    END WHILE;

-- name: stock_restock
-- Open, fill up, even out, close or look at a stock.
-- p_what   load, unless it is open; add, if it is; rebalance; close; remaining
-- p_operation  id of the load or add, which is done once
-- answer   [1 if it was done, [what is left in each segment]]
CREATE PROCEDURE aiodlock_stock_restock(
    IN p_stock VARBINARY(255), IN p_segments BIGINT, IN p_memory BIGINT, IN p_once TINYINT, IN p_outbox TINYINT,
    IN p_what VARBINARY(10), IN p_quantity BIGINT, IN p_operation VARBINARY(255))
SQL SECURITY INVOKER
goods: BEGIN
    DECLARE v_is_known, v_is_done BIGINT;
    -- include goods
    -- include begin
    -- include do_much_due
    DELETE FROM aiodlock_stock_operations WHERE stock = p_stock AND ends <= v_now;
    SELECT COUNT(*) INTO v_is_known FROM aiodlock_stock_operations WHERE stock = p_stock AND operation = p_operation;
    SET v_is_done = CASE p_what WHEN 'load' THEN v_is_known OR NOT v_open WHEN 'add' THEN v_is_known OR v_open ELSE 1 END;
    IF p_what IN ('load', 'add') AND v_is_done AND NOT v_is_known THEN
        INSERT INTO aiodlock_stock_operations (stock, operation, ends) VALUES (p_stock, p_operation, v_now + v_memory);
        UPDATE aiodlock_stock_segments
           SET rest = rest + p_quantity DIV v_segments
               + (MOD(segment + v_segments - MOD(v_loaded, v_segments), v_segments) < MOD(p_quantity, v_segments))
         WHERE stock = p_stock;
        SET v_open = 1, v_loaded = v_loaded + p_quantity, v_rest = v_rest + p_quantity;
    ELSEIF p_what = 'rebalance' THEN
        UPDATE aiodlock_stock_segments SET rest = v_rest DIV v_segments + (segment < MOD(v_rest, v_segments))
         WHERE stock = p_stock;
    ELSEIF p_what = 'close' THEN
        SET v_open = 0, v_kept = IF(v_kept = 9000000000000000, 0, v_kept);
    END IF;
    SELECT GROUP_CONCAT(rest ORDER BY segment) INTO v_text FROM aiodlock_stock_segments WHERE stock = p_stock;
    -- include end
    SELECT '', CONCAT('[', v_is_done, ',[', v_text, ']]');
    IF p_what = 'load' THEN CALL aiodlock_stock_forget(); END IF; -- each new sale pays for clearing away an old one
END

-- name: stock_audit
-- Count again, order by order, in one statement, which sees one instant and locks nothing.
-- answer   [loaded, accepted, returned, forgotten, what the orders have that are remembered, [what is left in each segment],
--          entries of the outbox]
CREATE PROCEDURE aiodlock_stock_audit(
    IN p_stock VARBINARY(255), IN p_segments BIGINT, IN p_memory BIGINT, IN p_once TINYINT, IN p_outbox TINYINT)
SQL SECURITY INVOKER
goods: BEGIN
    -- include goods
    -- include begin
    -- include do_much_due
    -- include end
    SELECT '', CONCAT('[', CONCAT_WS(',', loaded, accepted, returned, forgotten,
        (SELECT COALESCE(SUM(quantity), 0) FROM aiodlock_stock_orders WHERE stock = p_stock AND state IN (1, 2))), ',[',
        (SELECT GROUP_CONCAT(rest ORDER BY segment) FROM aiodlock_stock_segments WHERE stock = p_stock), '],',
        (SELECT COUNT(*) FROM aiodlock_stock_outbox WHERE stock = p_stock), ']')
      FROM aiodlock_stocks WHERE stock = p_stock;
END

-- name: stock_outbox
-- Drop the entries up to p_done, and read what comes next, p_most at most. A relay looks many times a second: where nothing is
-- there and nothing due, that locks and commits nothing.
-- answer   number and movements of each, oldest first
CREATE PROCEDURE aiodlock_stock_outbox(
    IN p_stock VARBINARY(255), IN p_segments BIGINT, IN p_memory BIGINT, IN p_once TINYINT, IN p_outbox TINYINT,
    IN p_done BIGINT, IN p_most BIGINT)
SQL SECURITY INVOKER
goods: BEGIN
    -- include goods
    -- include undo
    IF p_done = 0 AND NOT EXISTS(SELECT 1 FROM aiodlock_stock_outbox WHERE stock = p_stock)
       AND EXISTS(SELECT 1 FROM aiodlock_stocks WHERE stock = p_stock
                  AND segments = p_segments AND memory = p_memory AND once = p_once AND outbox = p_outbox)
       AND NOT EXISTS(SELECT 1 FROM aiodlock_stock_orders WHERE stock = p_stock AND state IN (1, 2, 3, 4)
                      AND ends <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))) THEN
        SELECT NULL, NULL LIMIT 0;
        LEAVE goods;
    END IF;
    -- include enter
    IF p_done > 0 THEN DELETE FROM aiodlock_stock_outbox WHERE stock = p_stock AND number <= p_done; END IF;
    -- include end
    SELECT number, movements FROM aiodlock_stock_outbox WHERE stock = p_stock ORDER BY number LIMIT p_most;
END

-- name: stock_forget
-- Remove a stock that is over, in bounded steps; its outbox stays until it has been read.
CREATE PROCEDURE aiodlock_stock_forget()
SQL SECURITY INVOKER
BEGIN
    DECLARE v_now BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
    DECLARE v_stock VARBINARY(255);
    DECLARE EXIT HANDLER FOR SQLEXCEPTION ROLLBACK; -- clearing away is nobody's errand: it is tried again
    START TRANSACTION;
    SELECT stock INTO v_stock FROM aiodlock_stocks WHERE kept <= v_now ORDER BY kept LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF v_stock IS NOT NULL THEN
        DELETE FROM aiodlock_stock_orders WHERE stock = v_stock LIMIT 10000;
        IF ROW_COUNT() < 10000 THEN
            DELETE FROM aiodlock_stock_operations WHERE stock = v_stock;
            DELETE FROM aiodlock_stock_segments WHERE stock = v_stock;
            DELETE FROM aiodlock_stocks WHERE stock = v_stock;
        END IF;
    END IF;
    COMMIT;
END
