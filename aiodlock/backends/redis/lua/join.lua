-- Stand in line, or look where a ticket stands.
--
-- KEYS[1]  the line
-- ARGV     1 name in clear if KEYS[1] holds its hash, else ''; 2 the client's channel, or '' if it is not to be told anything;
--          3 ticket id; 4 '1' to queue, '0' to enter at once or not at all; 5 id of the ticket that leaves in the same step, or '';
--          6 packed, because every argument costs: weight, size, ttl and waiting life in microseconds, most tickets in a line, owner
-- answer   {'inside', epoch, microseconds left, 1 if others wait, size}
--          {'waiting', most tickets ahead, microseconds after which to look again, last epoch, size[, holder]}
--          {'buried'} {'expired'} {'heavy'} {'busy'[, holder]} {'full'[, holder]}

local id, instead_of, client = ARGV[3], ARGV[5], ARGV[2]
local weight, own_size, ttl, life, most, owner = struct.unpack('<ddddds', ARGV[6])
local ids = instead_of == '' and { id } or { id, instead_of }
--#include header.lua

-- Nobody here: nothing to link, nobody to call. The same as below, at half the price.
if inside + waiting == 0 and not packed[2] and weight <= own_size then
  local ends = now + ttl
  local till = math.max(ends + KEPT, graves)
  local is_late = till > kept
  if is_late then kept = till + SLACK end
  last, serial = math.max(last + 1, math.floor(now / 16)), serial + 1
  redis.call('HSET', KEY,
    'line', struct.pack(HEADER, own_size, last, weight, 1, 0, serial, ends, FAR, kept, graves, id, '', id, '', '', grave, newest),
    't' .. id, struct.pack(RECORD, 0, weight, ends, now, last, serial, '', '', client, owner))
  if ARGV[1] ~= '' then redis.call('HSET', KEY, 'name', ARGV[1]) end
  if is_late then redis.call('PEXPIREAT', KEY, math.ceil(kept / 1000)) end
  return { 'inside', last, ends - now, 0, own_size }
end
--#include line.lua

local function append(ends)
  if line.inside + line.waiting == 0 and ARGV[1] ~= '' then redis.call('HSET', KEY, 'name', ARGV[1]) end
  line.serial, line.waiting = line.serial + 1, line.waiting + 1
  records[id] = {
    gone = 0, weight = weight, ends = ends, since = now, epoch = 0, serial = line.serial,
    prev = line.tail, next = '', client = client, owner = owner,
  }
  if line.tail ~= '' then read(line.tail).next = id touch(line.tail) else line.head = id end
  if line.first == '' then line.first = id end
  line.tail, line.removed[id] = id, nil
  live_until(id, ends)
end

-- Stand, or return why not. Who enters at once lives the whole ttl.
local function stand()
  if weight > line.size then return { 'heavy' } end
  clear_ahead(line.tail)
  local fits = line.first == '' and line.used + weight <= line.size
  if not fits and ARGV[4] == '0' then return { 'busy', holder() } end
  if line.inside + line.waiting >= most then return { 'full', holder() } end
  append(now + (fits and ttl or life))
  if fits then let_in() elseif line.first == id then line.telling = line.head end
end

if is_over(records[id]) then expire(id) end
sweep()
let_in()
if line.inside + line.waiting == 0 then line.size = own_size end
if instead_of ~= '' then
  part(instead_of, client)
  let_in()
end
if records[id] and records[id].gone == 0 then touch(id) end -- asked again: written again, for a WAIT behind it
local answer = not records[id] and stand() or look(id, life)
if answer[1] == 'waiting' and ARGV[4] == '0' then
  drop(id)
  answer = { 'busy', holder() }
end
close(id)
return answer
