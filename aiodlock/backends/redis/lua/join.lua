-- Stand in line, or look where a ticket stands: many tickets in one call.
--
-- KEYS     the line of each ticket
-- ARGV     per ticket: id; terms, packed because every argument costs: 1 to queue, 0 to enter at once or not at all; weight; size;
--          ttl and waiting life in microseconds; most tickets in a line; owner; the client's channel, or '' if it is not to be told
--          anything; name in clear if the key holds its hash, else ''; id of the ticket that leaves in the same step, or ''
-- answer   per ticket: epoch, of one that is inside alone, for its ttl, in a line of its size; otherwise
--          {'inside', epoch, microseconds left, 1 if others wait, size}
--          {'waiting', most tickets ahead, microseconds after which to look again, last epoch, size[, holder]}
--          {'buried'} {'expired'} {'heavy'} {'busy'[, holder]} {'full'[, holder]}; or an error, which is this ticket's alone

--#include clock.lua

local function join(KEY, id, terms)
  local queues, weight, own_size, ttl, life, most, owner, client, name, instead_of = struct.unpack('<Bdddddssss', terms)
  --#include header.lua

  -- Nobody here: nothing to link, nobody to call. The same as below, at half the price.
  if form == NONE and weight <= own_size then
    local _, last, kept = 0, 0, 0
    if header then _, last, kept = struct.unpack(EMPTY, header) end
    local ends = now + ttl
    local is_late = ends + KEPT > kept
    if is_late then kept = ends + KEPT + SLACK end
    last = math.max(last + 1, math.floor(now / 16))
    redis.call('HSET', KEY, 'line', struct.pack(LONE, ONE, last, kept, own_size, weight, ends, now, id, client, owner))
    if name ~= '' then redis.call('HSET', KEY, 'name', name) end
    if is_late then redis.call('PEXPIREAT', KEY, math.ceil(kept / 1000)) end
    return last
  end

  local ids = instead_of == '' and { id } or { id, instead_of }
  --#include line.lua

  local function append(ends)
    if line.inside + line.waiting == 0 and name ~= '' then redis.call('HSET', KEY, 'name', name) end
    line.serial, line.waiting = line.serial + 1, line.waiting + 1
    local record = new_record(weight, ends, now, client, owner)
    records[id], record.serial, record.prev = record, line.serial, line.tail
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
    if not fits and queues == 0 then return { 'busy', holder() } end
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
  if answer[1] == 'waiting' and queues == 0 then
    drop(id)
    answer = { 'busy', holder() }
  end
  close(id)
  return answer
end

--#include each.lua
return each(join)
