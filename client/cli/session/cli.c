/* cli.c - where answers and complaints go; see CLI-1. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/assert.h"

#include "client/cli/session/cli.h"

enum { COMPLAINT_LEN = 1024 };

int cli_flush(struct cli *cli)
{
    const bool lost = cli->text.failed;
    ASSERT(cli->text.data != NULL || cli->text.len == 0); /* TEXT-3 */
    const bool written = fwrite(cli->text.data != NULL ? cli->text.data : "", 1, cli->text.len,
                                stdout) == cli->text.len &&
                         fflush(stdout) == 0;
    cli_text_clear(&cli->text);
    if (lost)
        cli_complain("out of memory for the answer");
    else if (!written)
        cli_complain("the answer cannot be written to standard output");
    return lost || !written ? CLI_EXIT_OUTPUT : CLI_EXIT_OK;
}

void cli_complain(const char *format, ...)
{
    char sentence[COMPLAINT_LEN];
    struct cli_text line;
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    cli_text_init(&line);
    cli_text_str(&line, "tidegate: ");
    cli_text_shown(&line, sentence, strlen(sentence));
    cli_text_str(&line, "\n");
    if (!line.failed)
        (void)fwrite(line.data, 1, line.len, stderr);
    cli_text_fini(&line);
}

int cli_confirm(const struct cli *cli, const char *question, const char *instead)
{
    char line[16];
    if (cli->arguments->yes)
        return CLI_EXIT_OK;
    if (isatty(STDIN_FILENO) != 1) {
        cli_complain("'%s' asks before it changes anything: %s There is no terminal to ask; give "
                     "--yes%s",
                     cli_command_name(cli->arguments->command), question, instead);
        return CLI_EXIT_USAGE;
    }
    (void)fprintf(stderr, "%s [y/N] ", question);
    if (fgets(line, sizeof line, stdin) != NULL && (line[0] == 'y' || line[0] == 'Y'))
        return CLI_EXIT_OK;
    cli_complain("nothing was changed");
    return CLI_EXIT_DENIED;
}

bool cli_random(void *out, size_t len)
{
    uint8_t *at = out;
    while (len > 0) {
        const ssize_t got = getrandom(at, len, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            cli_complain("the machine gives no random bytes: %s", strerror(errno));
            return false;
        }
        ASSERT((size_t)got <= len);
        at += got;
        len -= (size_t)got;
    }
    return true;
}

int cli_exit_of(int code)
{
    switch (code) {
    case TG_OK:
        return CLI_EXIT_OK;
    case TG_EINVALID:
    case TG_ETOOBIG:
    case TG_ENOTFOUND:
    case TG_EEXISTS:
    case TG_EUNSUPPORTED:
    case TG_ECONFLICT:
        return CLI_EXIT_INVALID;
    default:
        return CLI_EXIT_UNREACHABLE;
    }
}

int cli_fail(struct cli *cli, int code, const char *said)
{
    char detail[CLI_SENTENCE_LEN] = "";
    tg_error_detail(cli->client, detail, sizeof detail);
    if (said[0] != '\0')
        cli_complain("%s", said);
    else if (detail[0] != '\0')
        cli_complain("%s: %s", tg_strerror(code), detail);
    else
        cli_complain("%s: asked %s, waited at most %d ms", tg_strerror(code), cli->endpoints,
                     cli->timeout_ms);
    return cli_exit_of(code);
}
