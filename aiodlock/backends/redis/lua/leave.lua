-- Give a place up, in any state, any number of times; whoever now fits is inside in the same step.
--
-- KEYS[1]  the line
-- ARGV     1 the client's channel, or ''; 2 ticket id; 3 microseconds to remember the id, '0' not to bury it
-- answer   nothing

local client, id, remembered = ARGV[1], ARGV[2], tonumber(ARGV[3])
local ids = { id }
--#include header.lua

-- The only one here: nobody to link, nobody to call. The same as below, at half the price.
if packed[2] and inside == 1 and waiting == 0 and head == id and now < soonest and remembered == 0 and
  client == select(3, struct.unpack('sss', packed[2], LINKS)) then
  local till = math.max(now + KEPT, graves)
  local is_wrong = till > kept or kept > till + 3 * SLACK
  if is_wrong then kept = till + SLACK end
  redis.call('HDEL', KEY, 't' .. id) -- first: see take_no_memory
  redis.call('HSET', KEY,
    'line', struct.pack(HEADER, size, last, 0, 0, 0, serial, FAR, FAR, kept, graves, '', '', '', '', grave, newest))
  if is_wrong then redis.call('PEXPIREAT', KEY, math.ceil(kept / 1000)) end
  return
end
--#include line.lua

part(id, client)
if remembered > 0 then bury(id, 1, now + remembered) take_no_memory() end
sweep()
let_in()
close()
