-- Take from a stock for many orders at once.
--
-- KEYS     the stock, see goods.lua
-- ARGV     1-4 its terms; 5 the orders as JSON, six elements each: order, buyer, quantity, home segment from 0, seconds to hold
--          or 0 for good, true if it was sent before; 6 if this is one segment of several: what has arrived, see moves.lua
-- answer   three elements for each order: 1, segment, left there: taken; 2, left, 0: sold out, or 1 if it was refused before;
--          3, order, buyer: another one is in its way; 4, quantity, 0: it was put back. Or JSON: ["differs", terms]
--
-- A handful of calls for the whole batch, and flat lists: a table for each order would cost more than its commands. Refusals
-- write nothing, unless the order was sent before: then a copy of it may be on its way, and must meet the same refusal.

--#include goods.lua
--#include moves.lua

if ARGV[6] then arrive(cjson.decode(ARGV[6])) end
local asked = cjson.decode(ARGV[5])
local names = {}
for i = 1, #asked, 6 do names[#names + 1] = 'o' .. asked[i] end
local found = redis.call('HMGET', STOCK, unpack(names))
local buyers = {}
if is_once then
  for i = 1, #names do names[i] = 'b' .. asked[6 * i - 4] end
  for i, order in ipairs(redis.call('HMGET', STOCK, unpack(names))) do buyers[asked[6 * i - 4]] = order end
end
local fresh = {} -- orders made by this call, packed
local is_all_done = false -- nothing more is due

-- What an order that is known answers. Something is written all the same: a WAIT behind this call speaks only of what its own
-- connection wrote, and of all that was written before, by whomever.
local function known(id, buyer, quantity, order)
  is_changed = true
  if order[1] == RETURNED then return 4, order[3], 0 end
  if order[1] == REFUSED and order[7] ~= '' then return 3, order[7], order[2] end
  if order[1] == REFUSED then return 2, order[5], 1 end
  if order[2] == buyer and order[3] == quantity then return 1, order[4], order[5] end
  return 3, id, order[2]
end

local function keep(id, state, buyer, quantity, segment, rest, ends, other)
  local packed = cmsgpack.pack(state, buyer, quantity, segment, rest, ends, other)
  fresh[id] = packed
  set('o' .. id, packed)
  plan('o' .. id, ends)
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

local function order_of(id, packed)
  if fresh[id] then return { cmsgpack.unpack(fresh[id]) } end
  return packed and read(id)
end

local function take(id, buyer, quantity, home, hold_for, again, packed)
  local order = order_of(id, packed)
  if order then return known(id, buyer, quantity, order) end
  local other = is_once and buyers[buyer]
  if other and has(order_of(other, true)) then
    if again then keep(id, REFUSED, buyer, 0, 0, total, now + memory, other) end
    return 3, other, buyer
  end
  if not books[OPEN] or lacks(quantity) then
    if again then keep(id, REFUSED, buyer, 0, 0, total, now + memory, '') end
    return 2, total, 0
  end
  local at = find(home + 1, quantity)
  left[at], total, books[ACCEPTED] = left[at] - quantity, total - quantity, books[ACCEPTED] + quantity
  if hold_for > 0 then
    keep(id, RESERVED, buyer, quantity, at - 1, left[at], now + math.ceil(hold_for * 1000), '')
    note('reserved', id, buyer, quantity, at - 1)
  else
    keep(id, TAKEN, buyer, quantity, at - 1, left[at], now + memory, '')
    note('taken', id, buyer, quantity, at - 1)
  end
  if is_once then
    buyers[buyer] = id
    set('b' .. buyer, id)
  end
  return 1, at - 1, left[at]
end

local answers, n = {}, 0
for i = 1, #asked, 6 do
  answers[n + 1], answers[n + 2], answers[n + 3] =
    take(asked[i], asked[i + 1], asked[i + 2], asked[i + 3], asked[i + 4], asked[i + 5], found[(i + 5) / 6])
  n = n + 3
end
save()
return answers
