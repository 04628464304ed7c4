"""A server of files that cuts connections, ignores ranges or sends something else."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CONTENT = bytes(range(256)) * 1_000


class Mirror:
    """Serves the same file under every name.

    Attributes:
      answers: of the next requests: after how many bytes the connection is cut, or a status, negative; all bytes later.
      ranges: whether it answers requests for a part.
      content: that file; CONTENT at first.
      asked: where the part began that each request asked for.
      pause: an event that it waits for after the first half, if any.
    """

    def __init__(self):
        self.answers, self.ranges, self.content, self.asked, self.pause = [], True, CONTENT, [], None
        self.halfway = threading.Event()
        mirror = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                mirror.answer(self)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}/files/"
        threading.Thread(target=self.server.serve_forever, args=[0.01], daemon=True).start()

    def answer(self, request):
        start = int(request.headers.get("Range", "bytes=0-").removeprefix("bytes=").removesuffix("-"))
        self.asked.append(start)
        most = self.answers.pop(0) if self.answers else None
        if most is not None and most < 0:
            request.send_error(-most)
            return
        partly = self.ranges and "Range" in request.headers
        if partly and start >= len(self.content):
            request.send_error(416)
            return
        start = start if partly else 0
        body = self.content[start:]
        request.send_response(206 if partly else 200)
        if partly:
            request.send_header("Content-Range", f"bytes {start}-{len(self.content) - 1}/{len(self.content)}")
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        if self.pause:
            request.wfile.write(body[: len(body) // 2])
            request.wfile.flush()
            self.halfway.set()
            self.pause.wait(20)
            body = body[len(body) // 2 :]
        request.wfile.write(body[:most])

    def close(self):
        if self.pause:
            self.pause.set()
        self.server.shutdown()
        self.server.server_close()
