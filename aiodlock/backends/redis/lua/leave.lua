-- Give a place up, in any state, any number of times; whoever now fits is inside in the same step.
--
-- KEYS[1]  the line
-- ARGV     1 the client's channel, or ''; 2 ticket id; 3 microseconds to remember the id, '0' not to bury it
-- answer   nothing

local client, id, remembered = ARGV[1], ARGV[2], tonumber(ARGV[3])
local ids = { id }
--#include header.lua

-- The only one inside goes, and there is nothing to sweep: the two ways below are the same as the general one, at half its
-- price.
local is_plain = packed[2] and inside == 1 and head == id and now < soonest and remembered == 0 and
  client == select(3, struct.unpack('sss', packed[2], LINKS))
if is_plain and waiting == 0 then -- nobody to link, nobody to call
  local till = math.max(now + KEPT, graves)
  local is_wrong = till > kept or kept > till + 3 * SLACK
  if is_wrong then kept = till + SLACK end
  redis.call('HDEL', KEY, 't' .. id) -- first: see take_no_memory
  redis.call('HSET', KEY,
    'line', struct.pack(HEADER, size, last, 0, 0, 0, serial, FAR, FAR, kept, graves, '', '', '', '', '', grave, newest))
  if is_wrong then redis.call('PEXPIREAT', KEY, math.ceil(kept / 1000)) end
  return
end
local heir = is_plain and redis.call('HGET', KEY, 't' .. first)
if heir then
  local _, weight, ends, since, _, nth, _, next, channel, owner = struct.unpack(RECORD, heir)
  if weight == size and ends > now then -- it fills the line: nobody else to call
    local till = math.max(ends + KEPT, graves)
    local is_late = till > kept
    if is_late then kept = till + SLACK end
    last = math.max(last + 1, math.floor(now / 16))
    redis.call('HDEL', KEY, 't' .. id)
    redis.call('HSET', KEY,
      'line', struct.pack(HEADER,
        size, last, weight, 1, waiting - 1, serial, ends, FAR, kept, graves, first, next, tail, '', '', grave, newest),
      't' .. first, struct.pack(RECORD, 0, weight, ends, since, last, nth, '', next, channel, owner))
    if is_late then redis.call('PEXPIREAT', KEY, math.ceil(kept / 1000)) end
    --#include call.lua
    if channel ~= '' then call(channel, first, last, waiting > 1) end
    return
  end
end
--#include line.lua

part(id, client)
if remembered > 0 then bury(id, 1, now + remembered) take_no_memory() end
sweep()
let_in()
close()
