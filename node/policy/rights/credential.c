/* credential.c - see credential.h. */
#include "node/policy/rights/credential.h"

#include <assert.h>
#include <string.h>

#include "node/policy/model/record_text.h"
#include "node/policy/rights/rights.h"

enum { VERSION = 1, FIELDS = 10, TOKENS_MAX = 128, DIGEST_FIELDS = 2 };

static_assert(CREDENTIAL_NAME_LEN_MAX + 2 * CREDENTIAL_AUTHOR_LEN_MAX +
                      CREDENTIAL_DIGESTS_MAX * (DIGEST_LEN + 16) +
                      CREDENTIAL_NETWORKS_MAX * (POLICY_IP_TEXT_LEN + 2) + FIELDS * 9 <
                  CREDENTIAL_RECORD_LEN_MAX,
              "the largest record fits");

bool credential_name_ok(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        const char c = text[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '.' || c == '_' || c == '-'))
            return false;
    }
    return len > 0 && len <= CREDENTIAL_NAME_LEN_MAX;
}

int credential_encode(const struct credential_record *record, void *out, size_t capacity)
{
    struct mp_writer writer;
    char network[POLICY_IP_TEXT_LEN];
    mp_writer_init(&writer, out, capacity);
    mp_put_array(&writer, FIELDS);
    mp_put_uint(&writer, VERSION);
    record_put_text(&writer, &record->name);
    mp_put_uint(&writer, record->roles);
    mp_put_array(&writer, record->digest_count);
    for (uint32_t i = 0; i < record->digest_count; i++) {
        mp_put_array(&writer, DIGEST_FIELDS);
        mp_put_bin(&writer, record->digests[i].digest.bytes, DIGEST_LEN);
        mp_put_uint(&writer, record->digests[i].until_ms);
    }
    mp_put_uint(&writer, record->created_ms);
    record_put_text(&writer, &record->created_by);
    mp_put_uint(&writer, record->expires_ms);
    mp_put_uint(&writer, record->revoked_ms);
    record_put_text(&writer, &record->revoked_by);
    mp_put_array(&writer, record->network_count);
    for (uint32_t i = 0; i < record->network_count; i++) {
        const size_t len = policy_block_put(&record->networks[i], network);
        mp_put_strn(&writer, network, len);
    }
    return writer.failed ? TG_ETOOBIG : (int)writer.len;
}

static bool get_digests(struct mp_cursor *cursor, struct credential_record *out)
{
    const size_t count = mp_get_array(cursor);
    if (cursor->failed || count > CREDENTIAL_DIGESTS_MAX)
        return false;
    out->digest_count = (uint32_t)count;
    for (size_t i = 0; i < count; i++) {
        const size_t fields = mp_get_array(cursor);
        const uint8_t *bytes = mp_get_bin_exact(cursor, DIGEST_LEN);
        if (bytes == NULL || fields != DIGEST_FIELDS)
            return false;
        memcpy(out->digests[i].digest.bytes, bytes, DIGEST_LEN);
        out->digests[i].until_ms = mp_get_uint(cursor);
    }
    return !cursor->failed;
}

/* The block as it was written: that of one address has no length. */
static bool read_network(const struct policy_text *text, struct policy_block *out)
{
    if (memchr(text->data, '/', text->len) != NULL)
        return policy_block_parse(text->data, text->len, out) == POLICY_BLOCK_GOOD;
    out->prefix = 0;
    if (!policy_ip_parse(text->data, text->len, &out->ip))
        return false;
    out->prefix = (uint8_t)(out->ip.len * 8);
    return true;
}

static bool get_networks(struct mp_cursor *cursor, struct credential_record *out)
{
    const size_t count = mp_get_array(cursor);
    if (cursor->failed || count > CREDENTIAL_NETWORKS_MAX)
        return false;
    out->network_count = (uint32_t)count;
    for (size_t i = 0; i < count; i++) {
        const struct policy_text text = record_get_text(cursor, POLICY_IP_TEXT_LEN);
        if (cursor->failed || !read_network(&text, &out->networks[i]))
            return false;
    }
    return true;
}

bool credential_decode(const void *bytes, size_t len, struct credential_record *out)
{
    struct mp_token tokens[TOKENS_MAX];
    struct mp_cursor cursor;
    const int count = mp_parse(bytes, len, tokens, TOKENS_MAX);
    mp_cursor_init(&cursor, tokens, count > 0 ? (size_t)count : 0);
    if (count < 0 || mp_get_array(&cursor) < FIELDS || mp_get_uint(&cursor) != VERSION)
        return false;
    out->name = record_get_text(&cursor, CREDENTIAL_NAME_LEN_MAX);
    const uint64_t roles = mp_get_uint(&cursor);
    out->roles = (uint8_t)(roles & RIGHTS_ALL); /* those of further releases give nothing here */
    if (!get_digests(&cursor, out))
        return false;
    out->created_ms = mp_get_uint(&cursor);
    out->created_by = record_get_text(&cursor, CREDENTIAL_AUTHOR_LEN_MAX);
    out->expires_ms = mp_get_uint(&cursor);
    out->revoked_ms = mp_get_uint(&cursor);
    out->revoked_by = record_get_text(&cursor, CREDENTIAL_AUTHOR_LEN_MAX);
    return get_networks(&cursor, out) && !cursor.failed;
}

bool credential_revoked(const void *bytes, size_t len)
{
    struct credential_record record;
    return credential_decode(bytes, len, &record) && record.revoked_ms > 0;
}
