-- The rows of one stock.
-- arguments  stock
-- answer     how many orders, what those have that were not returned, what those had that were
SELECT COUNT(*), COALESCE(SUM(IF(state < 4, quantity, 0)), 0), COALESCE(SUM(IF(state = 4, quantity, 0)), 0)
FROM aiodlock_orders WHERE stock = %s
