-- One movement of one order. The same again, or an older one, changes nothing.
-- arguments  stock, order, buyer, quantity, segment, state
INSERT INTO aiodlock_orders (stock, order_id, buyer, quantity, segment, state) VALUES (%s, %s, %s, %s, %s, %s)
ON DUPLICATE KEY UPDATE state = GREATEST(state, VALUES(state))
