/* gubernator_json.h - GetRateLimitsReq and GetRateLimitsResp as JSON.
 *
 *   {"requests": [{"name": "logins", "unique_key": "ada", "hits": 1, "limit": "5",
 *                  "duration": 60000, "algorithm": "LEAKY_BUCKET"}, ...]}
 *
 * Fields are spelled as in the .proto, or as JSON spells them: unique_key, uniqueKey. Numbers may
 * be in quotes; enums are names or numbers; null is a field that is not there; a field that is not
 * known is not looked at. Of a field that comes twice the last one counts. Answers have the names
 * of the .proto, all fields, and numbers of 64 bits in quotes. Pure.
 */
#ifndef NODE_GATEWAY_API_GUBERNATOR_JSON_H
#define NODE_GATEWAY_API_GUBERNATOR_JSON_H

#include "node/gateway/api/json_reader.h"
#include "node/gateway/gubernator/gubernator.h"
#include "node/gateway/http/http_reply.h"

enum { GUBERNATOR_ROOM = 16 << 10 /* for the strings of an item that have escapes */ };

/* Goes to the requests of a body; false: it has none, or the reader has failed. */
bool gubernator_open(struct json_reader *reader);
/* The next item, whose texts live until the next call; false: that was all, and the list is closed,
 * or the reader has failed. */
bool gubernator_read(struct json_reader *reader, struct gubernator_item *item);
/* Steps over what is behind the list, to the end of the body. */
bool gubernator_close(struct json_reader *reader);

/* Writes an answer. */
void gubernator_put(struct http_reply *reply, const struct gubernator_answer *answer);

#endif
