-- Give back what an order has; one that is not there is buried.
--
-- KEYS     the stock, see goods.lua
-- ARGV     1-4 its terms; 5 order; 6 buyer
-- answer   JSON: ["r", quantity]; ["a", order, buyer] it is another buyer's. Or ["differs", terms]

--#include goods.lua

local order = read(ARGV[5])
if has(order) then
  if order[2] ~= ARGV[6] then return cjson.encode({ 'a', ARGV[5], order[2] }) end
  give_back(ARGV[5], order)
elseif not order or order[1] == REFUSED then
  order = { RETURNED, ARGV[6], 0, 0, 0, now + memory, '' }
  save_order(ARGV[5], order)
end
is_changed = true -- also if it was put back before, see take.lua
save()
return cjson.encode({ 'r', order[3] })
