-- Count a stock again, a page of its orders at a time.
--
-- KEYS     the stock, see goods.lua
-- ARGV     1-4 its terms; 5 cursor, '0' to begin; 6 most fields of a page, roughly
-- answer   JSON: [next cursor, '0' at the end; [loaded, accepted, returned, forgotten, sent to other segments and not had back];
--          what is left in each segment; entries of the outbox;
--          [order, quantity] of each order of this page that has something]. Or ["differs", terms]

--#include goods.lua

if ARGV[5] == '0' then do_much_due() end
local page = redis.call('HSCAN', STOCK, ARGV[5], 'MATCH', 'o*', 'COUNT', ARGV[6])
local orders = {}
for i = 1, #page[2], 2 do
  local order = unpack_order(page[2][i + 1])
  if has(order) then orders[#orders + 1] = { string.sub(page[2][i], 2), order[3] } end
end
local sums = { books[LOADED], books[ACCEPTED], books[BACK], books[FORGOTTEN], books[SENT] - books[ARRIVED] }
return cjson.encode({ page[1], sums, left, redis.call('XLEN', OUTBOX), orders })
