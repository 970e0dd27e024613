/* fuzz_http1.c - any bytes as requests of HTTP/1.1, whole and in pieces.
 *
 *   input   | cut 1 | bytes ... |     cut: how long pieces are, 1 to 32 bytes; above 127 one byte
 *
 * Properties: nothing is read behind what there is; what is returned lies in it; the same bytes
 * give the same requests and the same refusal, however they are cut (HTTP1-2); an incomplete
 * request is no longer than it may be (HTTP1-3); a request has a host if its version demands one,
 * and one length (HTTP1-4): a second reader, who knows no more than that, finds its end where the
 * parser does.
 */
#include <string.h>

#include "base/hash.h"
#include "node/gateway/http/http1.h"
#include "tests/fuzz/fuzz.h"

static char room[HTTP1_BODY_MAX];
static struct http1_request request;

/* All requests of some bytes, as a digest; and how it ended. */
struct taken {
    struct http1_progress progress;
    size_t used;
    uint64_t digest;
    unsigned status;
    int result;
};

static void note(struct taken *taken, struct wire_text text)
{
    taken->digest = hash_mix64(taken->digest ^ text.len);
    for (size_t i = 0; i < text.len; i++)
        taken->digest = hash_mix64(taken->digest ^ (unsigned char)text.data[i]);
}

/* Where a request ends that was taken: behind its head and as many bytes as it says, or behind its
 * last chunk and the lines that follow. */
static void check_end(const char *data, size_t len)
{
    static const char end[] = "\r\n\r\n";
    const size_t head = request.head_len;
    ASSERT(head >= 18 && head <= HTTP1_HEAD_MAX && memcmp(data + head - 4, end, 4) == 0);
    ASSERT(memmem(data + 2, head - 3, end, 4) == NULL); /* none before */
    if (request.transfer.data != NULL) {
        ASSERT(memcmp(data + len - 2, "\r\n", 2) == 0 && len >= head + 5);
        ASSERT(request.content_length.data == NULL);
    } else {
        ASSERT(request.body.len == len - head);
        ASSERT(request.body.len == 0 || request.content_length.data != NULL);
    }
    ASSERT(request.minor == 0 || request.host.len > 0);
    ASSERT(request.header_count <= HTTP1_HEADERS_MAX && request.body.len <= HTTP1_BODY_MAX);
    ASSERT(memchr(data, '\0', head) == NULL);
}

static void take_all(struct taken *taken, const uint8_t *data, size_t len)
{
    struct http1_refusal refusal;
    char *const copy = (char *)fuzz_copy(data, len);
    while (taken->result >= 0) {
        const size_t left = len - taken->used;
        taken->result =
            http1_parse(&taken->progress, copy + taken->used, left, room, &request, &refusal);
        ASSERT(taken->result <= (int)left);
        if (taken->result < 0)
            taken->status = refusal.status;
        if (taken->result <= 0) {
            ASSERT(taken->result < 0 || left < HTTP1_PENDING_MAX); /* HTTP1-3 */
            break;
        }
        check_end(copy + taken->used, (size_t)taken->result);
        note(taken, request.method_name);
        note(taken, request.path);
        note(taken, request.query);
        note(taken, request.body);
        for (uint32_t i = 0; i < request.header_count; i++) {
            note(taken, request.headers[i].name);
            note(taken, request.headers[i].value);
        }
        taken->used += (size_t)taken->result;
    }
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fuzz_input input = fuzz_open(data, len);
    const uint8_t cut = fuzz_u8(&input);
    const size_t step = cut > 127 ? 1 : 1 + cut % 32;
    const uint8_t *bytes = data + input.at;
    const size_t count = len - input.at;
    struct taken whole = {.result = 0};
    struct taken pieces = {.result = 0};
    take_all(&whole, bytes, count);
    for (size_t come = 0; come < count && pieces.result >= 0;) {
        come = count - come < step ? count : come + step;
        take_all(&pieces, bytes, come);
    }
    ASSERT(whole.used == pieces.used && whole.result == pieces.result); /* HTTP1-2 */
    ASSERT(whole.digest == pieces.digest && whole.status == pieces.status);
    return 0;
}
