-- Give orders to their buyers, where the segments of a stock are on several servers: the segment of an order says whose it is.
--
-- KEYS     the segment, see goods.lua
-- ARGV     1-4 its terms; 5 as JSON, two elements each: order, buyer, or '' who only asks
-- answer   for each order the buyer whose it is, or ''. Or JSON: ["differs", terms]
--
-- Remembered longer than any order lives that is not asked for again: reserved, then returned by itself, then forgotten.

--#include goods.lua

local asked = cjson.decode(ARGV[5])
local names, owners = {}, {}
for i = 1, #asked, 2 do names[#names + 1] = 'c' .. asked[i] end
local found = redis.call('HMGET', STOCK, unpack(names))
for i, name in ipairs(names) do
  owners[name] = owners[name] or found[i] or asked[2 * i]
  if owners[name] == asked[2 * i] and owners[name] ~= '' then
    set(name, asked[2 * i])
    plan(name, now + 3 * memory)
  end
  found[i] = owners[name]
end
save()
return found
