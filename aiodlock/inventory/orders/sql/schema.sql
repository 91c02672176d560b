-- What the order writer keeps.
--
-- aiodlock_orders   one row per order: what it has, and how far it has come; a later movement only moves `state` up
-- aiodlock_offsets  the next message of each partition; written in the transaction of the rows that come from it

CREATE TABLE IF NOT EXISTS aiodlock_orders (
  stock VARBINARY(255) NOT NULL,
  order_id VARBINARY(255) NOT NULL,
  buyer VARBINARY(255) NOT NULL,
  quantity INT UNSIGNED NOT NULL,
  segment INT UNSIGNED NOT NULL,
  state TINYINT UNSIGNED NOT NULL COMMENT '1 reserved, 2 taken, 3 confirmed, 4 returned',
  written TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3),
  PRIMARY KEY (stock, order_id)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS aiodlock_offsets (
  topic VARBINARY(249) NOT NULL,
  part INT NOT NULL,
  next_offset BIGINT NOT NULL,
  PRIMARY KEY (topic, part)
) ENGINE = InnoDB;
