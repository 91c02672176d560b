-- Now, in microseconds of this server: included textually, once in a script.

local time = redis.call('TIME')
local now = time[1] * 1e6 + time[2]
