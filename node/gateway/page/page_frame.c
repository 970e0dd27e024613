/* page_frame.c - see page_frame.h. */
#include "node/gateway/page/page_frame.h"

#include "node/gateway/page/page_parts.h"
#include "node/gateway/page/page_text.h"

void page_begin(struct http_reply *reply, const struct page_frame *frame)
{
    http_reply_begin(reply, 200);
    http_reply_header(reply, "Content-Security-Policy", page_policy);
    http_reply_header(reply, "X-Content-Type-Options", "nosniff");
    http_reply_header(reply, "Referrer-Policy", "no-referrer");
    http_reply_header(reply, "Cross-Origin-Opener-Policy", "same-origin");
    http_reply_body(reply, "text/html; charset=utf-8");
    page_put(reply, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                    "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">");
    if (frame->live)
        page_put(reply, "<noscript><meta http-equiv=\"refresh\" content=\"5\"></noscript>");
    page_put(reply, "<title>");
    page_put(reply, frame->verdict);
    page_put(reply, " - ");
    page_put_text(reply, frame->node);
    page_put(reply, " - Tidegate</title><style>");
    page_put(reply, page_style);
    page_put(reply, "</style></head>\n<body");
    page_put(reply, frame->live ? " class=\"live\"" : "");
    page_put(reply, "><header><h1><a href=\"/\">Tidegate</a></h1><p>as node ");
    page_put_text(reply, frame->node);
    page_put(reply, " sees its cluster");
    if (frame->version != NULL) {
        page_put(reply, "; release ");
        page_put_text(reply, frame->version);
    }
    page_put(reply, "</p><p id=\"said\" class=\"away\" role=\"status\"></p>"
                    "<p id=\"stale\" role=\"alert\" hidden>the node does not answer: this is "
                    "what was known before</p></header>\n<main>\n");
}

void page_end(struct http_reply *reply, const struct page_frame *frame)
{
    page_put(reply,
             "</main>\n<section><h2>Ask about a request</h2>"
             "<form action=\"/look\" method=\"get\"><label for=\"request\">Attributes, apart by "
             "spaces, or one a line: <code>api=/login user=ada</code></label>"
             "<textarea id=\"request\" name=\"request\" rows=\"2\" maxlength=\"4000\" required "
             "spellcheck=\"false\" autocapitalize=\"off\">");
    page_put_text(reply, frame->asked != NULL ? frame->asked : "");
    page_put(reply,
             "</textarea><p><button name=\"see\" value=\"left\">What is left</button> "
             "<button name=\"see\" value=\"rules\">Which rules act</button> "
             "<button name=\"see\" value=\"owner\">Who decides</button></p></form></section>\n"
             "<footer>The same in a terminal: <code>tidegate status</code>, <code>events</code>, "
             "<code>peek --explain</code>, <code>rules explain</code>, <code>owner</code>; for "
             "programs: <code>GET /v1/status</code>, <code>/v1/events</code></footer><script>");
    page_put(reply, page_script);
    page_put(reply, "</script></body></html>\n");
    http_reply_end(reply);
}
