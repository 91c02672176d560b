-- Reads a line: what every script of a line does first, included textually where `KEY` names one and clock.lua stands above.
--
-- KEY      one hash
--   line    the header; as long as at most one ticket is inside and one waits, and nothing else is to be remembered, all of it
--   t<id>   otherwise: a ticket, or the tombstone of one
--   name    the key in clear, where KEYS[1] holds its hash
--
-- Where there are more, they stand in one list, in order of arrival, linked both ways. The first of them are inside, the
-- others wait, so joining, leaving and letting in touch a few neighbours, however long the line is. Tombstones form a second
-- list, oldest first. Times are microseconds of this server.

local KEPT, SLACK, FAR = 60e6, 30e6, 2 ^ 53 -- the last epoch outlives an empty line by KEPT; an expired id is kept as long
-- A header begins with its form. Nobody is here: last epoch given; kept: the key's expiry
local NONE, EMPTY = 0, '<Bdd'
-- One is inside, with that epoch: size and weight; end of life; since when; id; client's channel; owner
local ONE, LONE = 1, '<Bddddddsss'
-- One is inside, and one waits: as above; then the other's weight; end of life; since when; id; client's channel; owner
local TWO, SECOND = 2, '<dddsss'
-- Several: size; last epoch given; weight inside; how many inside; how many wait; serial of who came last; soonest: no life
-- inside ends before; least: the same for those that a check in progress has seen; kept; graves: no tombstone ends after; ids:
-- head of the list, first who waits, tail, cursor of a check in progress, next to be told of company, oldest and newest tombstone
local SEVERAL, HEADER = 3, '<Bddddddddddsssssss'
-- ticket: gone (0, or 1 buried, 2 expired); weight; end of life; since when; epoch, 0 while it waits; serial, its number in order
-- of arrival; ids before and after; client's channel; owner
local RECORD = '<Bdddddssss'

local header = redis.call('HGET', KEY, 'line')
local form = header and string.byte(header) or NONE
