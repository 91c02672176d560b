-- What moves a line: included textually after header.lua, after `ids`, the tickets that are asked for, and after whatever a
-- script does without it.
--
-- What is read is kept in `records`, what changed is written once, at the end. State is in one table, not in locals: every
-- call makes these functions anew, and each local that one catches costs.

--#include call.lua
local records = {}
local line = {
  size = 0, last = 0, used = 0, inside = 0, waiting = 0, serial = 0, soonest = FAR, least = FAR, kept = 0, graves = 0,
  head = '', first = '', tail = '', cursor = '', telling = '', grave = '', newest = '',
  dirty = false, needed = now + KEPT, changed = {}, removed = {}, called = {}, messages = {},
}

local function new_record(weight, ends, since, client, owner)
  return {
    gone = 0, weight = weight, ends = ends, since = since, epoch = 0, serial = 0, prev = '', next = '', client = client, owner = owner,
  }
end

local function remember(id, packed)
  local record = false
  if packed then
    record = {}
    record.gone, record.weight, record.ends, record.since, record.epoch, record.serial, record.prev, record.next, record.client,
      record.owner = struct.unpack(RECORD, packed)
  end
  records[id] = record
  return record
end

local function read(id)
  local record = records[id]
  if record == nil then record = remember(id, form == SEVERAL and redis.call('HGET', KEY, 't' .. id)) end
  return record
end

if form == ONE or form == TWO then
  local _, last, kept, size, weight, ends, since, id, client, owner, rest = struct.unpack(LONE, header)
  line.last, line.kept, line.size, line.used, line.inside, line.soonest = last, kept, size, weight, 1, ends
  line.serial, line.head, line.tail = 1, id, id
  local record = new_record(weight, ends, since, client, owner)
  records[id], record.epoch, record.serial, line.changed[id] = record, last, 1, true
  if form == TWO then
    weight, ends, since, line.first, client, owner = struct.unpack(SECOND, header, rest)
    record.next = line.first
    record = new_record(weight, ends, since, client, owner)
    records[line.first], record.serial, record.prev, line.changed[line.first] = record, 2, id, true
    line.waiting, line.serial, line.tail = 1, 2, line.first
  end
elseif form == NONE then
  if header then line.last, line.kept = select(2, struct.unpack(EMPTY, header)) end
else
  form = SEVERAL
  line.size, line.last, line.used, line.inside, line.waiting, line.serial, line.soonest, line.least, line.kept, line.graves,
    line.head, line.first, line.tail, line.cursor, line.telling, line.grave, line.newest =
    select(2, struct.unpack(HEADER, header))
  if ids[2] then
    local fields = {}
    for i, id in ipairs(ids) do fields[i] = 't' .. id end
    local packed = redis.call('HMGET', KEY, unpack(fields))
    for i, id in ipairs(ids) do remember(id, packed[i]) end
  end
end
for _, id in ipairs(ids) do read(id) end

local function touch(id)
  line.changed[id], line.dirty = true, true
end

local function live_until(id, ends)
  local record = records[id]
  record.ends = ends
  line.needed = math.max(line.needed, ends + KEPT)
  if record.epoch > 0 and (line.inside == 1 or ends < line.soonest) then line.soonest = ends end
  touch(id)
end

-- Take a ticket out of the list.
local function drop(id)
  local record = records[id]
  local prev, next = record.prev, record.next
  if prev ~= '' then read(prev).next = next touch(prev) else line.head = next end
  if next ~= '' then read(next).prev = prev touch(next) else line.tail = prev end
  if line.cursor == id then line.cursor = next end
  if line.telling == id then line.telling = next end
  if line.first == id then line.first = next end
  if record.epoch == 0 then
    line.waiting = line.waiting - 1
  else
    line.used, line.inside = line.used - record.weight, line.inside - 1
    if line.inside == 0 then line.soonest = FAR end
  end
  records[id], line.changed[id], line.removed[id], line.dirty = false, nil, true, true
end

-- Remember an id that must not stand any more. Forget the oldest whose time is over; one that outlasts the others goes
-- behind them, so that it does not keep them.
local function bury(id, gone, ends)
  local old = records[id]
  if old then
    old.gone, old.ends = gone, math.max(old.ends, ends)
  else
    records[id] = new_record(0, ends, now, '', '')
    records[id].gone = gone
    if line.newest ~= '' then read(line.newest).next = id touch(line.newest) else line.grave = id end
    line.newest, line.removed[id] = id, nil
  end
  line.graves = math.max(line.graves, ends)
  touch(id)
  for _ = 1, 2 do
    local oldest = line.grave
    local record = read(oldest)
    if oldest == line.newest or record.ends > now and record.ends <= ends then return end
    line.grave = record.next
    if record.ends <= now then
      records[oldest], line.changed[oldest], line.removed[oldest] = false, nil, true
    else
      read(line.newest).next, record.next = oldest, ''
      touch(line.newest) touch(oldest)
      line.newest = oldest
    end
  end
end

local function expire(id)
  drop(id)
  bury(id, 2, now + KEPT)
end

local function is_over(record)
  return record and record.gone == 0 and record.ends <= now
end

-- Clear away who died inside, in bounded steps. Lives are only ever lengthened, so `soonest` is a bound without being exact.
local function sweep()
  if now < line.soonest then return end
  if line.cursor == '' then line.cursor, line.least = line.head, FAR end
  for _ = 1, 64 do
    local id = line.cursor
    if id == line.first or line.inside == 0 then break end
    local record = read(id)
    line.cursor = record.next
    if is_over(record) then expire(id) else line.least = math.min(line.least, record.ends) end
  end
  if line.cursor == line.first or line.inside == 0 then line.soonest, line.cursor = line.least, '' end
  line.dirty = true
end

-- The rule: the front of the line is inside while the weights fit the size. In bounded steps; the next verb goes on.
local function let_in()
  for _ = 1, 256 do
    local id = line.first
    if id == '' then return end
    local record = read(id)
    if is_over(record) then
      expire(id)
    elseif line.used + record.weight > line.size then
      return
    else
      line.last = math.max(line.last + 1, math.floor(now / 16))
      record.epoch = line.last
      line.used, line.inside, line.waiting = line.used + record.weight, line.inside + 1, line.waiting - 1
      line.first = record.next
      live_until(id, record.ends)
      line.called[#line.called + 1] = id
    end
  end
end

-- Clear away the dead directly ahead of who looks or comes, so that they do not pile up behind a long hold.
local function clear_ahead(id)
  for _ = 1, 4 do
    local record = id ~= '' and read(id)
    if not is_over(record) or record.epoch > 0 then return end
    expire(id)
    id = record.prev
  end
end

local function tell(client, text)
  if client ~= '' then line.messages[#line.messages + 1] = { client, text } end
end

-- Tell who is inside that company has come: from the front to the first who waits, in bounded steps; the next verb goes on.
local function tell_company()
  for _ = 1, 256 do
    local id = line.telling
    if id == '' then return end
    line.dirty = true
    if id == line.first or line.waiting == 0 then line.telling = '' return end
    local record = read(id)
    tell(record.client, 'C ' .. id)
    line.telling = record.next
  end
end

-- Take a live ticket out for good; its client is told unless it is the one who asks.
local function part(id, client)
  local record = records[id]
  if not record or record.gone > 0 then return end
  if is_over(record) then return expire(id) end
  drop(id)
  if record.client ~= client then tell(record.client, 'G ' .. id) end
end

local function holder()
  return line.inside > 0 and read(line.head).owner or nil
end

-- Answer for one ticket; who waits lives *life* from now.
local function look(id, life)
  local record = records[id]
  if not record or record.gone == 2 then return { 'expired' } end
  if record.gone == 1 then return { 'buried' } end
  if record.epoch > 0 then return { 'inside', record.epoch, record.ends - now, line.waiting > 0 and 1 or 0, line.size } end
  clear_ahead(record.prev)
  live_until(id, math.max(record.ends, now + life))
  local again = life / 3
  if line.first == id and line.inside > 0 then
    again = math.max(0, (line.inside == 1 and read(line.head).ends or line.soonest) - now)
  end
  return { 'waiting', line.inside + record.serial - read(line.first).serial, again, line.last, line.size, holder() }
end

-- When its memory is full, Redis refuses a script whose first write could take more of it, and no other. Who renews or
-- leaves takes none to speak of, and must not lose a lock, or keep one, because others have filled the memory.
local function take_no_memory()
  redis.call('HDEL', KEY, '')
end

local function write(command, fields)
  for i = 1, #fields, 1000 do redis.call(command, KEY, unpack(fields, i, math.min(i + 999, #fields))) end
end

-- Return when the key goes, if that has to be set: when the last ticket and tombstone are over and the last epoch has
-- outlived the line. Set later than needed, so that it is set seldom.
local function expiry()
  local empty = line.inside + line.waiting == 0
  local till = math.max(empty and now + KEPT or line.needed, line.graves)
  if till <= line.kept and not (empty and line.kept > till + 3 * SLACK) then return end
  line.kept = till + SLACK
  return math.ceil(line.kept / 1000)
end

-- Return the header of a line that is nothing but its header, if it is one: its tickets are not written beside it. Where only
-- one is inside, its life is `soonest`, so that no check goes on, and it has been told of company by now.
local function short_header()
  if line.waiting > 1 or line.grave ~= '' then return end
  if line.inside + line.waiting == 0 then return struct.pack(EMPTY, NONE, line.last, line.kept) end
  local r = line.inside == 1 and read(line.head)
  if not r or r.epoch ~= line.last then return end
  local packed = struct.pack(LONE, line.waiting == 0 and ONE or TWO,
    line.last, line.kept, line.size, r.weight, r.ends, r.since, line.head, r.client, r.owner)
  line.changed = {}
  if line.waiting == 0 then line.removed[line.head] = true return packed end
  -- Only what is there: who comes to wait must begin with a write that full memory refuses.
  if form == SEVERAL then line.removed[line.head], line.removed[line.first] = true, true end
  r = read(line.first)
  return packed .. struct.pack(SECOND, r.weight, r.ends, r.since, line.first, r.client, r.owner)
end

local function save()
  if line.grave ~= '' and line.inside + line.waiting == 0 and line.graves <= now then -- nothing is left to be remembered
    redis.call('DEL', KEY)
    line.grave, line.newest, line.graves, line.kept = '', '', 0, 0
  end
  local expire_at = expiry()
  local fields = { 'line', short_header() or struct.pack(HEADER, SEVERAL,
    line.size, line.last, line.used, line.inside, line.waiting, line.serial, line.soonest, line.least, line.kept, line.graves,
    line.head, line.first, line.tail, line.cursor, line.telling, line.grave, line.newest) }
  for id in pairs(line.changed) do
    local r = records[id]
    fields[#fields + 1], fields[#fields + 2] = 't' .. id, struct.pack(RECORD,
      r.gone, r.weight, r.ends, r.since, r.epoch, r.serial, r.prev, r.next, r.client, r.owner)
  end
  local old = {}
  for id in pairs(line.removed) do old[#old + 1] = 't' .. id end
  write('HDEL', old)
  write('HSET', fields)
  if expire_at then redis.call('PEXPIREAT', KEY, expire_at) end
end

-- Write what has changed, then call who was let in, except *quiet*, whose answer says it.
local function close(quiet)
  tell_company()
  if line.dirty then save() end
  for _, id in ipairs(line.called) do
    local record = records[id]
    if id ~= quiet and record and record.client ~= '' then call(record.client, id, record.epoch, line.waiting > 0) end
  end
  for _, message in ipairs(line.messages) do publish(message[1], message[2]) end
end
