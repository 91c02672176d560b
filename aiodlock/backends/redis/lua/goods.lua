-- Reads a stock and does what is due: the first lines of every script of a stock, included textually.
--
-- KEYS[1]  one hash
--   stock    the books: terms, whether the sale is open, sums, what is left in each segment
--   o<id>    an order; b<buyer> the order of a buyer, where one each is allowed; p<id> a load or add that was done
--   c<id>    whose an order is, and `moves`: where this is one segment of several, see claim.lua and moves.lua
-- KEYS[2]  sorted set: o<id>, p<id>, c<id> by the millisecond at which a reservation goes back, or at which it is forgotten;
--          g<ids, packed> has some orders that one call made. Those that have changed since are planned again by themselves
-- KEYS[3]  stream, the outbox: each entry has in `m` the movements of one step as JSON, in columns: moves, orders, buyers,
--          quantities, segments; each of them is one value if that is the same for all. Its id is the microsecond at which it
--          was written
-- ARGV     1 segments, or less than 0 if this is only one of so many; 2 memory in milliseconds; 3 '1' for one order per buyer;
--          4 '1' to write to the outbox
--
-- While a sale is open its keys have no expiry: a stock is data. Closed, they go when the last order is forgotten; the
-- outbox goes when it is empty. One segment of several goes when all of them do. Times are milliseconds of this server.

local STOCK, DUE, OUTBOX = KEYS[1], KEYS[2], KEYS[3]
local TAKEN, RESERVED, RETURNED, REFUSED = 1, 2, 3, 4

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local micros = time[1] * 1000000 + time[2]
local parts, memory = tonumber(ARGV[1]), tonumber(ARGV[2])
local segments, is_part = math.max(1, parts), parts < 0
local is_once, has_outbox = ARGV[3] == '1', ARGV[4] == '1'

local books, left
local packed = redis.call('HGET', STOCK, 'stock')
if packed then
  books = cmsgpack.unpack(packed)
  if books[1] ~= parts or books[2] ~= memory or books[3] ~= is_once or books[4] ~= has_outbox then
    return cjson.encode({ 'differs', books[1], books[2], books[3], books[4] })
  end
  left = books[10]
else
  left = {}
  for i = 1, segments do left[i] = 0 end
  books = { parts, memory, is_once, has_outbox, false, 0, 0, 0, 0, left }
end
for i = 11, 16 do books[i] = books[i] or 0 end
-- the places in `books`
local OPEN, LOADED, ACCEPTED, BACK, FORGOTTEN = 5, 6, 7, 8, 9
-- the microsecond of the last entry of the outbox, or up to which there will be no more; the number of the last opening or
-- closing, which is its microsecond; when it was first opened; when a closed one goes; articles sent to and had from others
local WRITTEN, SALE, BORN, ENDS, SENT, ARRIVED = 11, 12, 13, 14, 15, 16

local total = 0
for i = 1, segments do total = total + left[i] end
local is_changed, fields, dues, removed, moved = false, {}, {}, {}, { {}, {}, {}, {}, {} }

-- Return a column, or only its value if that is the same for all.
local function shared(column)
  for i = 2, #column do
    if column[i] ~= column[1] then return column end
  end
  return column[1]
end

local function set(field, value)
  local n = #fields
  fields[n + 1], fields[n + 2] = field, value
end

-- order: state; buyer; quantity; segment, from 0; what its answer says is left; end of life; the order that was in its way
local ORDER = '<BHc0I8HI8I8Hc0'

local function pack_order(state, buyer, quantity, segment, rest, ends, other)
  return struct.pack(ORDER, state, #buyer, buyer, quantity, segment, rest, ends, #other, other)
end

local function unpack_order(packed)
  return { struct.unpack(ORDER, packed) }
end

-- As text, and each made once: the server's own way from a number to a score costs more than the rest of an order.
local scores = setmetatable({}, {
  __index = function(known, at)
    known[at] = string.format('%.0f', at)
    return known[at]
  end,
})

local function plan(member, at)
  local n = #dues
  dues[n + 1], dues[n + 2] = scores[at], member
end

-- Together, but not too many: what is due is done a bounded number at a time.
local function plan_orders(ids, at)
  for i = 1, #ids, 50 do plan('g' .. cmsgpack.pack({ unpack(ids, i, math.min(i + 49, #ids)) }), at) end
end

local function note(move, id, buyer, quantity, segment)
  if not has_outbox then return end
  local moves, ids, buyers, quantities, at = unpack(moved)
  local n = #moves + 1
  moves[n], ids[n], buyers[n], quantities[n], at[n] = move, id, buyer, quantity, segment
end

local function save_order(id, order)
  set('o' .. id, pack_order(unpack(order)))
  plan('o' .. id, order[6])
end

local function give_back(id, order)
  local at = order[4] + 1
  left[at], total, books[BACK] = left[at] + order[3], total + order[3], books[BACK] + order[3]
  order[1], order[6] = RETURNED, now + memory
  if is_once and redis.call('HGET', STOCK, 'b' .. order[2]) == id then removed[#removed + 1] = 'b' .. order[2] end
  save_order(id, order)
  note('returned', id, order[2], order[3], order[4])
end

local function forget(member, order)
  if order then
    if order[1] == TAKEN then books[FORGOTTEN] = books[FORGOTTEN] + order[3] end
    if is_once and redis.call('HGET', STOCK, 'b' .. order[2]) == string.sub(member, 2) then
      removed[#removed + 1] = 'b' .. order[2]
    end
  end
  removed[#removed + 1] = member
end

local function write(command, key, list)
  for i = 1, #list, 1000 do redis.call(command, key, unpack(list, i, math.min(i + 999, #list))) end
end

-- When a closed stock goes: all segments of it at the same time, for their books are one.
local function last_day()
  if not is_part then return now + 2 * memory end
  return books[ENDS] > 0 and books[ENDS] or now + 3 * memory
end

-- Write what has changed. A closed stock goes when nothing of it is remembered any more.
local function save()
  if not (is_changed or fields[1] or dues[1] or removed[1]) then return end
  local has_moved = moved[1][1]
  if has_moved then books[WRITTEN] = math.max(books[WRITTEN] + 1, micros) end
  set('stock', cmsgpack.pack(books))
  write('HDEL', STOCK, removed)
  write('HSET', STOCK, fields)
  write('ZADD', DUE, dues)
  if has_moved then
    for i = 1, 5 do moved[i] = shared(moved[i]) end
    redis.call('XADD', OUTBOX, scores[books[WRITTEN]] .. '-0', 'm', cjson.encode(moved))
  end
  if not books[OPEN] then
    for _, key in ipairs({ STOCK, DUE }) do redis.call('PEXPIREAT', key, last_day()) end
  end
  is_changed, fields, dues, removed, moved = false, {}, {}, {}, { {}, {}, {}, {}, {} }
end

-- Take what is due next off the plan, about as much as one call makes, so that it never lags behind. Return the names, each
-- once: an order that was forgotten and made anew may stand in an old group too.
local function pick_due()
  local names, picked, members = {}, {}, {}
  local function pick(name)
    if not picked[name] then names[#names + 1] = name end
    picked[name] = true
  end
  for i, member in ipairs(redis.call('ZRANGEBYSCORE', DUE, '-inf', now, 'LIMIT', 0, 64)) do
    if #names >= 200 then break end
    members[i] = member
    if string.sub(member, 1, 1) == 'g' then
      for _, id in ipairs(cmsgpack.unpack(string.sub(member, 2))) do pick('o' .. id) end
    else
      pick(member)
    end
  end
  if members[1] then redis.call('ZREM', DUE, unpack(members)) end
  return names
end

-- Do what is due, a bounded number at a time; return whether there was any.
local function do_due()
  local names = pick_due()
  if not names[1] then return false end
  for i, packed in ipairs(redis.call('HMGET', STOCK, unpack(names))) do
    local order = packed and string.sub(names[i], 1, 1) == 'o' and unpack_order(packed)
    local is_over = packed and not (order and order[6] > now) -- else it has changed since, and is planned again
    if is_over and order and order[1] == RESERVED then
      give_back(string.sub(names[i], 2), order)
    elseif is_over then
      forget(names[i], order)
    end
  end
  save()
  return true
end

-- Do as much as does not hold the server up; the next verb goes on.
local function do_much_due()
  for _ = 1, 30 do
    if not do_due() then return end
  end
end

-- Return an order as it is at this instant, also if it was due and its turn has not come.
local function read(id)
  local packed = redis.call('HGET', STOCK, 'o' .. id)
  if not packed then return nil end
  local order = unpack_order(packed)
  if order[6] > now then return order end
  redis.call('ZREM', DUE, 'o' .. id)
  if order[1] == RESERVED then
    give_back(id, order)
  else
    forget('o' .. id, order)
    order = nil
  end
  save()
  return order
end

local function has(order)
  return order and (order[1] == TAKEN or order[1] == RESERVED)
end

do_due()
