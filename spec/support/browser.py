"""Drives a page in headless Chromium over WebDriver.

Usage: browser.py ANSWERS. Reads a JSON list of steps from each line of its input, and writes the JSON list of their
results to the pipe ANSWERS. A step is one of {"open": "FILE.html"}, {"ready": seconds}, {"script": "return 1"},
{"async": "await f(); return 1"}, {"move": [x, y]}, {"drag": [x0, y0, x1, y1]}, {"key": "w"}, {"screenshot": "x.png"},
{"size": [w, h]}, {"print": true} (the number of pages), {"console": true} (what it said).
"""
import base64, json, os, re, shutil, socket, subprocess, sys, tempfile, time, urllib.error, urllib.request


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Browser:
    def __init__(self, profile):
        self.port = free_port()
        self.driver = subprocess.Popen(["chromedriver", "--port=%d" % self.port], stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
        self.base = "http://127.0.0.1:%d" % self.port
        deadline = time.time() + 60
        while True:
            try:
                if self.call("GET", "/status")["ready"]:
                    break
            except (OSError, KeyError):
                if time.time() > deadline:
                    raise
            time.sleep(0.05)
        args = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync",
                "--no-first-run", "--disable-dev-shm-usage", "--user-data-dir=" + profile,
                "--window-size=1500,1100"]
        made = self.call("POST", "/session", {"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": {"args": args}, "goog:loggingPrefs": {"browser": "ALL"},
            "timeouts": {"script": 120000, "pageLoad": 120000}}}})
        self.base += "/session/" + made["sessionId"]

    def call(self, method, path, body=None):
        request = urllib.request.Request(self.base + path, method=method,
                                         data=json.dumps(body if body is not None else {}).encode()
                                         if method == "POST" else None,
                                         headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=150) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as fault:
            raise RuntimeError(fault.read().decode()) from None

    def run(self, script):
        return self.call("POST", "/execute/sync", {"script": script, "args": []})

    def pointer(self, actions):
        self.call("POST", "/actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": actions}]})

    def step(self, step):
        kind, value = next(iter(step.items()))
        if kind == "open":
            self.page = value
            return self.call("POST", "/url", {"url": "file://" + os.path.abspath(value)})
        if kind == "console":
            return [line["message"] for line in self.call("POST", "/se/log", {"type": "browser"})]
        if kind == "ready":
            deadline = time.time() + value
            while time.time() < deadline:
                found = self.run("return document.documentElement.dataset")
                if "error" in found:
                    raise RuntimeError("%s failed: %s" % (self.page, found["error"]))
                if "ready" in found:
                    return float(found["ready"])
                time.sleep(0.02)
            raise RuntimeError("%s is not ready after %s s" % (self.page, value))
        if kind == "script":
            return self.run(value)
        if kind == "async":
            answer = self.call("POST", "/execute/async", {"args": [], "script":
                               "const done = arguments[0]; (async () => {%s})().then(v => done({v}), "
                               "e => done({e: String(e && e.stack || e)}))" % value})
            if "e" in answer:
                raise RuntimeError(answer["e"])
            return answer.get("v")
        if kind == "move":
            return self.pointer([{"type": "pointerMove", "duration": 0, "x": value[0], "y": value[1]}])
        if kind == "drag":
            return self.pointer([{"type": "pointerMove", "duration": 0, "x": value[0], "y": value[1]},
                                 {"type": "pointerDown", "button": 0},
                                 {"type": "pointerMove", "duration": 60, "x": value[2], "y": value[3]},
                                 {"type": "pointerUp", "button": 0}])
        if kind == "key":
            return self.call("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": [
                {"type": "keyDown", "value": value}, {"type": "keyUp", "value": value}]}]})
        if kind == "print":
            pdf = base64.b64decode(self.call("POST", "/print", {}))
            return len(re.findall(rb"/Type\s*/Page\b", pdf))
        if kind == "size":
            return self.call("POST", "/window/rect", {"width": value[0], "height": value[1]})
        with open(value, "wb") as file:
            return file.write(base64.b64decode(self.call("GET", "/screenshot")))

    def close(self):
        try:
            self.call("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait()


def main():
    profile = tempfile.mkdtemp()
    browser = None
    try:
        browser = Browser(profile)
        for line in sys.stdin:
            answers = [browser.step(step) for step in json.loads(line)]
            with open(sys.argv[1], "w") as pipe:
                json.dump(answers, pipe)
    finally:
        if browser:
            browser.close()
        shutil.rmtree(profile, ignore_errors=True)


main()
