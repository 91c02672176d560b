-- Reads a line: the first lines of every script of a line, included textually after `ids`, the tickets to read with it.
--
-- KEYS[1]  one hash
--   line    the header
--   t<id>   a ticket, or the tombstone of one
--   name    the key in clear, where KEYS[1] holds its hash
--
-- All tickets stand in one list, in order of arrival, linked both ways. The first of them are inside, the others wait,
-- so joining, leaving and letting in touch a few neighbours, however long the line is. Tombstones form a second list,
-- oldest first. Times are microseconds of this server.

local KEY = KEYS[1]
local KEPT, SLACK, FAR = 60e6, 30e6, 2 ^ 53 -- the last epoch outlives an empty line by KEPT; an expired id is kept as long
-- header: size; last epoch given; weight inside; how many inside; how many wait; serial of who came last; soonest: no life
-- inside ends before; least: the same for those that a check in progress has seen; kept: the key's expiry; graves: no
-- tombstone ends after; ids: head of the list, first who waits, tail, cursor of a check in progress, next to be told of company,
-- oldest and newest tombstone
local HEADER = '<ddddddddddsssssss'
-- ticket: gone (0, or 1 buried, 2 expired); weight; end of life; since when; epoch, 0 while it waits; serial, its number in order
-- of arrival; ids before and after; client's channel; owner
local RECORD, LINKS = '<Bdddddssss', 42 -- LINKS: where its ids begin

local time = redis.call('TIME')
local now = time[1] * 1e6 + time[2]
local packed
if ids[2] then
  local fields = { 'line' }
  for i, id in ipairs(ids) do fields[i + 1] = 't' .. id end
  packed = redis.call('HMGET', KEY, unpack(fields))
else
  packed = redis.call('HMGET', KEY, 'line', 't' .. (ids[1] or ''))
end

local size, last, used, inside, waiting, serial, soonest, least, kept, graves = 0, 0, 0, 0, 0, 0, FAR, FAR, 0, 0
local head, first, tail, cursor, telling, grave, newest = '', '', '', '', '', '', ''
if packed[1] then
  size, last, used, inside, waiting, serial, soonest, least, kept, graves, head, first, tail, cursor, telling, grave, newest =
    struct.unpack(HEADER, packed[1])
end
