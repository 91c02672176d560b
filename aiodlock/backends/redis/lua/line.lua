-- The line: what every script of a line shares. Included textually; it runs before the script's own part.
--
-- KEYS[1]  one hash
--   line    the header (HEADER below)
--   t<id>   a ticket, or the tombstone of one (RECORD below)
--   name    the key in clear, where KEYS[1] holds its hash
--
-- All tickets stand in one list, in order of arrival, linked both ways. The first of them are inside, the others wait,
-- so joining, leaving and letting in touch a few neighbours, however long the line is. Tombstones form a second list,
-- oldest first. Times are microseconds of this server; what is read is kept in `records`, what is changed goes out once.

local KEY = KEYS[1]
local HEADER = '<dddddddddddssssss'
local RECORD = '<Bddddssss'
local STATE, WEIGHT, ENDS, SINCE, NUMBER, PREV, NEXT, CLIENT, OWNER = 1, 2, 3, 4, 5, 6, 7, 8, 9
local INSIDE, WAITING, BURIED, EXPIRED, TOO_HEAVY, BUSY, FULL = 1, 2, 3, 4, 5, 6, 7
local FAR = 2 ^ 53
local KEPT = 60e6 -- the last epoch outlives an empty line by this, an expired id is remembered as long
local SLACK = 30e6 -- the key's expiry is set that much later than needed, so that it is set seldom
local STEPS = 64 -- tickets inside that one verb checks for the end of their life
local CALLS = 256 -- tickets that one verb lets in or tells of company; the next verb goes on

local time = redis.call('TIME')
local now = time[1] * 1e6 + time[2]

-- last: epoch given last; used: weight inside; serial: of the last who waited; front: of the first who waits;
-- soonest: no life inside ends before; least: the same for those that a check in progress has seen; kept: the key's expiry;
-- graves: no tombstone ends after; first: who waits first; cursor: where a check in progress goes on
local size, last, used, inside, waiting, serial, front, soonest, least, kept, graves = 0, 0, 0, 0, 0, 0, 0, FAR, FAR, 0, 0
local head, first, tail, cursor, grave, newest = '', '', '', '', '', ''

local records, changed, removed, messages = {}, {}, {}, {}
local dirty, needed = false, now + KEPT

local function remember(id, packed)
  local record = packed and { struct.unpack(RECORD, packed) }
  records[id] = record
  return record
end

-- Read the header and these tickets in one call; tell whether there is a line.
local function open(ids)
  local fields = { 'line' }
  for i, id in ipairs(ids) do fields[i + 1] = 't' .. id end
  local packed = redis.call('HMGET', KEY, unpack(fields))
  for i, id in ipairs(ids) do remember(id, packed[i + 1]) end
  if not packed[1] then return false end
  size, last, used, inside, waiting, serial, front, soonest, least, kept, graves, head, first, tail, cursor, grave, newest =
    struct.unpack(HEADER, packed[1])
  return true
end

local function read(id)
  local record = records[id]
  if record == nil then record = remember(id, redis.call('HGET', KEY, 't' .. id)) end
  return record
end

local function touch(id)
  changed[id], dirty = true, true
end

local function set_first(id)
  first = id
  front = id ~= '' and read(id)[NUMBER] or 0
end

local function live_until(id, record, ends)
  record[ENDS] = ends
  if ends + KEPT > needed then needed = ends + KEPT end
  if record[STATE] == INSIDE and (inside == 1 or ends < soonest) then soonest = ends end
  touch(id)
end

-- Take a ticket out of the list.
local function drop(id, record)
  local prev, next = record[PREV], record[NEXT]
  if prev ~= '' then read(prev)[NEXT] = next touch(prev) else head = next end
  if next ~= '' then read(next)[PREV] = prev touch(next) else tail = prev end
  if cursor == id then cursor = next end
  if record[STATE] == INSIDE then
    used, inside = used - record[WEIGHT], inside - 1
    if inside == 0 then soonest, cursor = FAR, '' end
  else
    waiting = waiting - 1
    if first == id then set_first(next) end
  end
  records[id], changed[id], dirty = false, nil, true
  removed[id] = true
end

-- Remember an id that must not stand any more, and forget the oldest whose time is over.
local function bury(id, state, ends)
  local old = read(id)
  if old then
    old[STATE], old[ENDS] = state, math.max(old[ENDS], ends)
  else
    records[id] = { state, 0, ends, now, 0, '', '', '', '' }
    if newest ~= '' then read(newest)[NEXT] = id touch(newest) else grave = id end
    newest, removed[id] = id, nil
  end
  graves = math.max(graves, ends)
  touch(id)
  for _ = 1, 2 do
    local oldest = read(grave)
    if grave == newest or oldest[ENDS] > now then break end
    records[grave], changed[grave], removed[grave] = false, nil, true
    grave = oldest[NEXT]
  end
end

local function expire(id, record)
  drop(id, record)
  bury(id, EXPIRED, now + KEPT)
end

local function is_over(record)
  return record and record[STATE] <= WAITING and record[ENDS] <= now
end

-- Clear away who died inside. Lives are only ever lengthened, so `soonest` stays a lower bound without being kept exact.
local function sweep()
  if now < soonest then return end
  if cursor == '' then cursor, least = head, FAR end
  for _ = 1, STEPS do
    if cursor == first then break end
    local id, record = cursor, read(cursor)
    cursor = record[NEXT]
    if is_over(record) then expire(id, record) else least = math.min(least, record[ENDS]) end
  end
  if cursor == first or inside == 0 then soonest, cursor = least, '' end
  dirty = true
end

local function tell(client, text)
  if client ~= '' then messages[#messages + 1] = { client, text } end
end

-- Take a live ticket out for good; its client is told unless it is the one who asks.
local function part(id, client)
  local record = read(id)
  if not record or record[STATE] > WAITING then return end
  drop(id, record)
  if record[CLIENT] ~= client then tell(record[CLIENT], 'G ' .. id) end
end

local called = {}

-- The rule: the front of the line is inside while the weights fit the size.
local function let_in()
  for _ = 1, CALLS do
    if first == '' then return end
    local id, record = first, read(first)
    if is_over(record) then
      expire(id, record)
    elseif used + record[WEIGHT] > size then
      return
    else
      last = math.max(last + 1, math.floor(now / 16))
      used, inside, waiting = used + record[WEIGHT], inside + 1, waiting - 1
      record[STATE], record[NUMBER] = INSIDE, last
      live_until(id, record, record[ENDS])
      set_first(record[NEXT])
      called[#called + 1] = id
    end
  end
end

-- Clear away the dead directly ahead of who looks or comes, so that they do not pile up behind a long hold.
local function clear_ahead(id)
  for _ = 1, 4 do
    local record = id ~= '' and read(id)
    if not is_over(record) or record[STATE] ~= WAITING then return end
    local before = record[PREV]
    expire(id, record)
    id = before
  end
end

local function holder()
  return inside > 0 and read(head)[OWNER] or nil
end

-- Answer for one ticket; who waits lives *life* from now.
local function look(id, life)
  local record = read(id)
  if not record then return { EXPIRED } end
  if record[STATE] == INSIDE then return { INSIDE, record[NUMBER], record[ENDS] - now, waiting > 0 and 1 or 0 } end
  if record[STATE] ~= WAITING then return { record[STATE] } end
  clear_ahead(record[PREV])
  live_until(id, record, math.max(record[ENDS], now + life))
  local again = life / 3
  if first == id and inside > 0 then again = (inside == 1 and read(head)[ENDS] or soonest) - now end
  return { WAITING, inside + record[NUMBER] - front, math.max(again, 0), last, holder() }
end

local function write(command, fields)
  for i = 1, #fields, 1000 do redis.call(command, KEY, unpack(fields, i, math.min(i + 999, #fields))) end
end

-- The key goes when the last ticket and tombstone are over and the last epoch has outlived the line.
local function keep()
  local empty = inside + waiting == 0
  local till = math.max(empty and now + KEPT or needed, graves)
  if till <= kept and not (empty and kept > till + KEPT + SLACK) then return end
  kept = till + SLACK
  return kept
end

local function save()
  local expiry = keep()
  local fields = { 'line', struct.pack(HEADER, size, last, used, inside, waiting, serial, front, soonest, least, kept, graves,
    head, first, tail, cursor, grave, newest) }
  for id in pairs(changed) do
    fields[#fields + 1], fields[#fields + 2] = 't' .. id, struct.pack(RECORD, unpack(records[id], 1, 9))
  end
  write('HSET', fields)
  local old = {}
  for id in pairs(removed) do old[#old + 1] = 't' .. id end
  write('HDEL', old)
  if expiry then redis.call('PEXPIREAT', KEY, math.ceil(expiry / 1000)) end
end

-- Write what has changed, then call who was let in, except *quiet*, whose answer says it.
local function close(quiet)
  if dirty then save() end
  local name = KEY
  if called[1] and string.find(KEY, '{#', 1, true) then name = redis.call('HGET', KEY, 'name') end
  for _, id in ipairs(called) do
    local record = records[id]
    if id ~= quiet and record and record[CLIENT] ~= '' then
      local epoch, company = string.format('%.0f', record[NUMBER]), waiting > 0 and ' 1 ' or ' 0 '
      redis.call('PUBLISH', record[CLIENT], 'I ' .. epoch .. company .. name .. ' ' .. id)
    end
  end
  for _, message in ipairs(messages) do redis.call('PUBLISH', message[1], message[2]) end
end
