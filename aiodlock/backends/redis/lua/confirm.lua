-- Keep a reservation for good.
--
-- KEYS     the stock, see goods.lua
-- ARGV     1-4 its terms; 5 order; 6 buyer
-- answer   JSON: ["t", segment, left there] it has its articles; ["r", quantity] it is too late, or there is no such order;
--          ["a", order, buyer] it is another buyer's. Or ["differs", terms]

--#include goods.lua

local order = read(ARGV[5])
if not has(order) then return cjson.encode({ 'r', order and order[3] or 0 }) end
if order[2] ~= ARGV[6] then return cjson.encode({ 'a', ARGV[5], order[2] }) end
if order[1] == RESERVED then
  order[1], order[6] = TAKEN, now + memory
  save_order(ARGV[5], order)
  note('confirmed', ARGV[5], order[2], order[3], order[4])
end
is_changed = true -- also if it was confirmed before, see take.lua
save()
return cjson.encode({ 't', order[4], order[5] })
