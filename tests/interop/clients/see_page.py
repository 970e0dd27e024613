"""Opens pages of a node in Chromium as people do, and tells what there is to see: JSON on its output.

    see_page.py URL FOLDER STEPS     STEPS: JSON, [{"name", "path", "width", "dark", "script", "until", "fill"}, ...]

Of each step: the text of the page when `until` is in it, messages of the console, violations of the policy of its
content, what it loaded, whether it is wider than the window, and a picture FOLDER/NAME.png.
"""

import json
import sys
from urllib.parse import urlsplit

from playwright.sync_api import sync_playwright

WITHIN_MS = 30000
VIOLATIONS = """document.addEventListener('securitypolicyviolation',
  event => console.error('violation: ' + event.violatedDirective + ' ' + event.blockedURI));"""


def see(browser, url, folder, step):
    parts = urlsplit(url)
    context = browser.new_context(viewport={"width": step.get("width", 1280), "height": 900},
                                  color_scheme="dark" if step.get("dark") else "light",
                                  java_script_enabled=step.get("script", True),
                                  http_credentials={"username": "admin", "password": parts.password})
    page = context.new_page()
    console, loaded = [], []
    page.on("console", lambda message: console.append(message.text))
    page.on("pageerror", lambda error: console.append(f"error: {error}"))
    page.on("request", lambda request: loaded.append(request.url))
    if step.get("script", True):
        page.add_init_script(VIOLATIONS)
    page.goto(f"{parts.scheme}://{parts.hostname}:{parts.port}{step.get('path', '/')}")
    if "fill" in step:
        page.fill("#request", step["fill"]["request"])
        page.click(f"button[value={step['fill']['see']}]")
    page.get_by_text(step["until"]).first.wait_for(timeout=WITHIN_MS, state="attached")
    page.screenshot(path=f"{folder}/{step['name']}.png", full_page=True)
    wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    told = {"text": page.inner_text("body"), "title": page.title(), "html": page.content(), "console": console,
            "loaded": loaded, "wide": page.evaluate(wide) if step.get("script", True) else False,
            "at": page.url}
    context.close()
    return told


def main():
    url, folder, steps = sys.argv[1:]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        for step in json.loads(steps):
            print(json.dumps(see(browser, url, folder, step)), flush=True)
        browser.close()


main()
