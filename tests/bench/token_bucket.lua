-- token_bucket.lua - the yardstick: a token bucket as people write it for Redis, in one script.
--
-- KEYS[1]; ARGV: burst, tokens a period, seconds of the period. Answers as CL.THROTTLE does:
-- {0 allowed or 1 denied, capacity, left, seconds until it can succeed or -1, until it is full}.
-- A hash keeps the tokens and when they were counted; idle keys expire.
local capacity = tonumber(ARGV[1]) + 1
local per_second = tonumber(ARGV[2]) / tonumber(ARGV[3])
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local kept = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens = capacity
if kept[1] then
    tokens = math.min(capacity, tonumber(kept[1]) + (now - tonumber(kept[2])) * per_second)
end
local denied, retry = 1, -1
if tokens >= 1 then
    tokens, denied = tokens - 1, 0
else
    retry = math.ceil((1 - tokens) / per_second)
end
local full = math.ceil((capacity - tokens) / per_second)
redis.call('HSET', KEYS[1], 'tokens', tokens, 'at', now)
redis.call('EXPIRE', KEYS[1], full + 1)
return {denied, capacity, math.floor(tokens), retry, full}
