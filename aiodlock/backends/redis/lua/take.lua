-- Take from a stock for many orders at once.
--
-- KEYS     the stock, see goods.lua
-- ARGV     1-4 its terms; 5 the orders as JSON, in columns: orders, buyers, quantities, home segments from 0, seconds to hold
--          or 0 for good, true if sent before. Of the last four each may be one value, which is for all;
--          6 if this is one segment of several: what has arrived, see moves.lua
-- answer   three columns, each of them one value if it is the same for all orders. 1, segment, left there: taken; 2, left, 0:
--          sold out, or 1 if it was refused before; 3, order, buyer: another one is in its way; 4, quantity, 0: it was put
--          back. Or JSON: ["differs", terms]
--
-- A handful of calls for the whole batch, and columns: a table for each order would cost more than its commands. Refusals
-- write nothing, unless the order was sent before: then a copy of it may be on its way, and must meet the same refusal. A
-- reservation that is taken without a time to hold it is confirmed by that.

--#include goods.lua
--#include moves.lua

if ARGV[6] then arrive(cjson.decode(ARGV[6])) end
local orders, buyers, quantities, homes, holds, agains = unpack(cjson.decode(ARGV[5]))
local count = #orders

local function spread_out(column)
  if type(column) == 'table' then return column end
  local values = {}
  for i = 1, count do values[i] = column end
  return values
end

local function fields_of(letter, ids)
  local names = {}
  for i = 1, count do names[i] = letter .. ids[i] end
  return names, redis.call('HMGET', STOCK, unpack(names))
end

quantities, homes, holds, agains = spread_out(quantities), spread_out(homes), spread_out(holds), spread_out(agains)
local order_fields, found = fields_of('o', orders)
local buyer_fields, others = nil, {}
if is_once then
  local their_orders
  buyer_fields, their_orders = fields_of('b', buyers)
  for i = 1, count do
    if their_orders[i] then others[buyers[i]] = their_orders[i] end
  end
end
local fresh = {} -- orders made by this call, packed
local groups = {} -- their ids, by the end of their life
local is_all_done = false -- nothing more is due

local function keep(i, state, quantity, segment, rest, ends, other)
  local id = orders[i]
  local packed = pack_order(state, buyers[i], quantity, segment, rest, ends, other)
  fresh[id] = packed
  set(order_fields[i], packed)
  local group = groups[ends] or {}
  groups[ends], group[#group + 1] = group, id
end

-- What an order that is known answers. Something is written all the same: a WAIT behind this call speaks only of what its own
-- connection wrote, and of all that was written before, by whomever.
local function known(i, order)
  is_changed = true
  local state, buyer, quantity, segment, rest, _, other = unpack(order)
  if state == RETURNED then return 4, quantity, 0 end
  if state == REFUSED and other ~= '' then return 3, other, buyer end
  if state == REFUSED then return 2, rest, 1 end
  if buyer ~= buyers[i] or quantity ~= quantities[i] then return 3, orders[i], buyer end
  if state == RESERVED and holds[i] == 0 then
    keep(i, TAKEN, quantity, segment, rest, now + memory, '')
    note('confirmed', orders[i], buyer, quantity, segment)
  end
  return 1, segment, rest
end

local function refuse(i, other)
  if agains[i] then keep(i, REFUSED, 0, 0, total, now + memory, other) end
end

-- Return a segment that has enough: home, the next one around that has, or home filled up from the others.
local function find(home, quantity)
  if left[home] >= quantity then return home end
  for i = home + 1, segments do
    if left[i] >= quantity then return i end
  end
  for i = 1, home - 1 do
    if left[i] >= quantity then return i end
  end
  for step = 1, segments - 1 do
    local other = (home - 1 + step) % segments + 1
    local some = math.min(left[other], quantity - left[home])
    left[other], left[home] = left[other] - some, left[home] + some
  end
  return home
end

-- Nobody is refused what has gone back, however many reservations ended at once.
local function lacks(quantity)
  while total < quantity and not is_all_done do is_all_done = not do_due() end
  return total < quantity
end

local function order_of(id)
  if fresh[id] then return unpack_order(fresh[id]) end
  return read(id)
end

local function take(i)
  local id, buyer, quantity = orders[i], buyers[i], quantities[i]
  local order = (found[i] or fresh[id]) and order_of(id)
  if order then return known(i, order) end
  local other = others[buyer]
  if other and has(order_of(other)) then
    refuse(i, other)
    return 3, other, buyer
  end
  if not books[OPEN] or (total < quantity and lacks(quantity)) then
    refuse(i, '')
    return 2, total, 0
  end
  local at = find(homes[i] + 1, quantity)
  local segment, rest = at - 1, left[at] - quantity
  left[at], total, books[ACCEPTED] = rest, total - quantity, books[ACCEPTED] + quantity
  if holds[i] > 0 then
    keep(i, RESERVED, quantity, segment, rest, now + math.ceil(holds[i] * 1000), '')
    note('reserved', id, buyer, quantity, segment)
  else
    keep(i, TAKEN, quantity, segment, rest, now + memory, '')
    note('taken', id, buyer, quantity, segment)
  end
  if is_once then
    others[buyer] = id
    set(buyer_fields[i], id)
  end
  return 1, segment, rest
end

local codes, firsts, seconds = {}, {}, {}
for i = 1, count do codes[i], firsts[i], seconds[i] = take(i) end
for ends, ids in pairs(groups) do plan_orders(ids, ends) end
save()
return { shared(codes), shared(firsts), shared(seconds) }
