-- Stand in line, or look where a ticket stands.
--
-- KEYS[1]  the line
-- ARGV     1 name in clear if KEYS[1] holds its hash, else ''; 2 ticket id; 3 '1' to queue, '0' to enter at once or not at all;
--          4 id of the ticket that leaves in the same step, or ''; 5 weight; 6 size; 7 ttl and 8 waiting life in microseconds;
--          9 the client's channel, or '' if it is not to be told anything; 10 owner; 11 most tickets in a line
-- answer   {1, epoch, remaining, company} inside; {2, ahead, look again, last epoch[, holder]} waiting;
--          {3 buried | 4 expired | 5 too heavy | 6 busy | 7 full[, holder]}
--#include line.lua

local id, instead_of = ARGV[2], ARGV[4]
local weight, ttl, life, client = tonumber(ARGV[5]), tonumber(ARGV[7]), tonumber(ARGV[8]), ARGV[9]

local function append(ends)
  if inside + waiting == 0 and ARGV[1] ~= '' then redis.call('HSET', KEY, 'name', ARGV[1]) end
  serial, waiting = serial + 1, waiting + 1
  local record = { WAITING, weight, ends, now, serial, tail, '', client, ARGV[10] }
  if tail ~= '' then read(tail)[NEXT] = id touch(tail) else head = id end
  records[id], removed[id], tail = record, nil, id
  live_until(id, record, ends)
  if first == '' then set_first(id) end
end

local function tell_company()
  local other = head
  for _ = 1, math.min(inside, CALLS) do
    tell(read(other)[CLIENT], 'C ' .. other)
    other = read(other)[NEXT]
  end
end

-- Stand, or return why not. Who enters at once lives the whole ttl.
local function stand()
  if weight > size then return { TOO_HEAVY } end
  clear_ahead(tail)
  local fits = first == '' and used + weight <= size
  if not fits and ARGV[3] == '0' then return { BUSY, holder() } end
  if inside + waiting >= tonumber(ARGV[11]) then return { FULL, holder() } end
  append(now + (fits and ttl or life))
  if fits then let_in() elseif first == id then tell_company() end
end

open(instead_of == '' and { id } or { id, instead_of })
if is_over(records[id]) then expire(id, records[id]) end
sweep()
if inside + waiting == 0 then size = tonumber(ARGV[6]) end
if instead_of ~= '' then part(instead_of, client) end
let_in()
local answer = not records[id] and stand() or look(id, life)
if answer[1] == WAITING and ARGV[3] == '0' then
  drop(id, records[id])
  answer = { BUSY, holder() }
end
close(id)
return answer
