-- Hang up at a bell, or ring it: everybody who hung up is told that a line may be free, and has to hang up again.
--
-- KEYS[1]  one hash: clients, the channels of those who hung up, each behind a space
-- ARGV     1 name of the line in clear; 2 the client's channel to hang up, '' to ring; 3 microseconds to remember it
-- answer   nothing

local KEY, channel = KEYS[1], ARGV[2]
local clients = redis.call('HGET', KEY, 'clients')
if channel == '' then
  if not clients then return end
  redis.call('DEL', KEY)
  for one in string.gmatch(clients, '%S+') do redis.call('PUBLISH', one, 'O ' .. ARGV[1]) end
  return
end
if not (clients and string.find(clients, ' ' .. channel, 1, true)) then
  redis.call('HSET', KEY, 'clients', (clients or '') .. ' ' .. channel)
end
local time = redis.call('TIME')
redis.call('PEXPIREAT', KEY, math.ceil((time[1] * 1e6 + time[2] + tonumber(ARGV[3])) / 1000))
