/* page_parts.c - style and script of the page.
 *
 * PAGE-2  page_policy names the digests of both: who changes them changes it (a test tells how).
 */
#include "node/gateway/page/page_parts.h"

const char page_style[] =
    ":root{color-scheme:light dark;--ink:#1b1f24;--paper:#fff;--soft:#57606a;--line:#d0d7de;"
    "--well:#116329;--ill:#a40e26;--tint:#f6f8fa;--bad:#ffebe9}"
    "@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--paper:#0d1117;--soft:#9198a1;"
    "--line:#3d444d;--well:#56d364;--ill:#ff7b72;--tint:#161b22;--bad:#3c1618}}"
    "*{box-sizing:border-box}"
    "body{margin:0;background:var(--paper);color:var(--ink);"
    "font:15px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}"
    "header,main,footer{max-width:72rem;margin:0 auto;padding:.5rem 1rem}"
    "header{display:flex;gap:1rem;align-items:baseline;flex-wrap:wrap;padding-top:1rem}"
    "h1{font-size:1.1rem;margin:0}h2{font-size:1rem;margin:1.5rem 0 .25rem}"
    "header p,footer{color:var(--soft);font-size:.85rem}header p{margin:0}"
    "#stale{color:var(--ill);font-weight:600}"
    ".verdict{border-left:.4rem solid var(--well);background:var(--tint);padding:.6rem 1rem;"
    "margin:.75rem 0;font-size:1.1rem}"
    ".verdict b{color:var(--well)}.verdict.ill{border-color:var(--ill);background:var(--bad)}"
    ".verdict.ill b{color:var(--ill)}.verdict p{margin:.15rem 0;overflow-wrap:anywhere}"
    "dl{display:grid;grid-template-columns:6rem 1fr;gap:.2rem 1rem;margin:.75rem 0}"
    "dt{color:var(--soft)}dd{margin:0;grid-column:2;overflow-wrap:anywhere}"
    ".wide{overflow-x:auto}"
    "table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}"
    "caption{text-align:left;font-weight:600;padding:.5rem 0 .25rem}"
    "th,td{text-align:left;padding:.3rem .75rem .3rem 0;border-bottom:1px solid var(--line);"
    "white-space:nowrap;vertical-align:top}"
    "th{font-weight:600;color:var(--soft);font-size:.85rem}"
    "td:last-child,.name{white-space:normal;min-width:8rem;overflow-wrap:anywhere}"
    ".n{text-align:right}tr.ill td{background:var(--bad)}"
    "meter{width:3.5rem;height:.7rem;margin-right:.4rem}"
    "code{font-family:ui-monospace,SFMono-Regular,Menlo,monospace;font-size:.9em}"
    "@media(max-width:40rem){dl{grid-template-columns:1fr;gap:0}dd{grid-column:1;margin-bottom:."
    "4rem}"
    "header,main,footer{padding-left:.75rem;padding-right:.75rem}}";

const char page_script[] =
    "\"use strict\";"
    "const place=document.querySelector('main'),stale=document.querySelector('#stale');"
    "async function look(){"
    "try{const answer=await fetch(location.origin+'/',{cache:'no-store'});"
    "if(!answer.ok)throw answer.status;"
    "const page=new DOMParser().parseFromString(await answer.text(),'text/html');"
    "if(document.getSelection().isCollapsed)"
    "place.replaceChildren(...page.querySelector('main').childNodes);"
    "document.title=page.title;stale.hidden=true;"
    "}catch(why){stale.hidden=false;document.title='? '+document.title.replace(/^\\? /,'');}"
    "setTimeout(look,document.hidden?10000:2000);}"
    "setTimeout(look,2000);";

const char page_policy[] =
    "default-src 'none'; style-src "
    "'sha256-yohLWmP1SkZyaF+e0bhUW2mUPofVvH+fP8ufDtrwVD8='; script-src "
    "'sha256-R8XWIc7qw0wyykJhKwfirTGTFr1cg20vCldoJvbBxqE='; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
