"""TLS: the same server under a certificate."""

import http.client
import os
import re
import signal
import socket
import ssl
import subprocess

import kit
from kit import calls, on_result, on_user, says


def make_certificate(folder, name):
    """A self-signed one for this machine; the paths of certificate and key."""
    certificate, key = folder / f"{name}.pem", folder / f"{name}-key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
         "-keyout", str(key), "-out", str(certificate), "-subj", f"/CN={name}",
         "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"], check=True, capture_output=True)
    return certificate, key


class TlsCase(kit.Case):
    fresh = True

    def setUp(self):
        self._log_begins = 0
        self.server = self.add_server(setup=None, start=False)
        self.certificate, self.key = make_certificate(self.server.folder, "first")
        self.configure(self.certificate, self.key)

    def configure(self, certificate, key):
        self.server.setup = kit.Setup(
            agents=[{"name": "helper", "tools": ["job"], "script": [
                on_user("go", calls(("job", {}, "call_j"))), on_result("job", says("{{result}}"))]}],
            tools=[{"name": "job", "kind": "external"}],
            server={"tls_cert": str(certificate), "tls_key": str(key)})

    def connect(self, certificate=None):
        trusted = ssl.create_default_context(cafile=str(certificate or self.certificate))
        return http.client.HTTPSConnection("127.0.0.1", self.server.port, timeout=kit.PATIENCE, context=trusted)

    def assert_answers_with(self, certificate):
        connection = self.connect(certificate)
        connection.request("GET", "/healthz")
        self.assertEqual(connection.getresponse().status, 200)
        connection.close()

    def rouse(self, *arguments):
        return subprocess.run(
            [kit.BINARY, *arguments, "--url", f"https://localhost:{self.server.port}",
             "--token-file", str(self.server.data / "token")], capture_output=True, text=True, timeout=kit.PATIENCE)


class Tls(TlsCase):
    def test_a_key_with_a_passphrase_is_refused_and_nobody_is_asked_for_it(self):
        locked = self.server.folder / "locked.pem"
        subprocess.run(["openssl", "ec", "-in", str(self.key), "-aes128", "-passout", "pass:secret", "-out", str(locked)],
                       check=True, capture_output=True)
        self.configure(self.certificate, locked)
        self.server.setup.write(self.server.folder)
        nobody, silent = os.pipe()
        try:
            done = subprocess.run(self.server.command(), stdin=nobody, capture_output=True, text=True, check=False,
                                  timeout=kit.PATIENCE, start_new_session=True, env=self.server.environment())
        finally:
            os.close(nobody)
            os.close(silent)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"cannot use {locked} as server.tls_key", done.stderr)

    def test_the_whole_story_over_tls(self):
        self.server.start()
        trust = ["--ca-file", str(self.certificate)]
        done = self.rouse("run", "go", "--agent", "helper", *trust)
        session = re.search(r"rouse resume (sess_\w+)", done.stdout)
        self.assertTrue(session, done.stdout + done.stderr)
        self.assertIn(f"--cacert {self.certificate}", done.stdout)
        self.server.restart()
        done = self.rouse("resume", session[1], "--result", "call_j=over TLS", *trust)
        self.assertEqual((done.returncode, done.stdout), (0, "over TLS\n"), done.stderr)
        refused = self.rouse("sessions")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("certificate", refused.stderr)

    def test_many_requests_on_one_connection_and_a_large_body(self):
        self.server.start()
        connection = self.connect()
        headers = {"Authorization": f"Bearer {self.server.token()}", "Content-Type": "application/json"}
        for text in ("x", "y" * 300_000):
            connection.request("POST", "/v1/sessions", f'{{"agent":"helper","title":"{text[:100]}","message":"{text}"}}', headers)
            answer = connection.getresponse()
            self.assertEqual((answer.status, len(answer.read()) > 0), (201, True))
        connection.close()

    def test_events_are_streamed(self):
        self.server.start()
        connection = self.connect()
        connection.request("GET", "/v1/events", headers={"Authorization": f"Bearer {self.server.token()}"})
        answer = connection.getresponse()
        self.assertEqual(answer.headers["Content-Type"], "text/event-stream")
        other = self.connect()
        other.request("POST", "/v1/sessions", "{}", {"Authorization": f"Bearer {self.server.token()}",
                                                     "Content-Type": "application/json"})
        made = other.getresponse().headers["Location"].split("/")[-1]
        while made not in answer.fp.readline().decode():
            pass

    def test_a_worker_that_hung_up_gets_no_call(self):
        self.server.start()
        headers = {"Authorization": f"Bearer {self.server.token()}", "Content-Type": "application/json"}

        def post(connection, path, body):
            connection.request("POST", path, body, headers)
            return connection
        before = self.server.sockets()
        post(self.connect(), "/async-tool/claim?wait=5m", '{"worker":"ghost"}').close()
        kit.wait_until(lambda: self.server.sockets() == before, "the connection to be let go")
        post(self.connect(), "/v1/sessions?wait=10s", '{"agent":"helper","message":"go"}').getresponse().read()
        answer = post(self.connect(), "/async-tool/claim?wait=10s", '{"worker":"there"}').getresponse().read()
        self.assertIn(b'"worker":"there"', answer)

    def test_what_is_not_tls_gets_nothing(self):  # T33
        self.server.start()
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=kit.PATIENCE) as plain:
            plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = b""
            while piece := plain.recv(4096):
                answer += piece
        self.assertNotIn(b"HTTP", answer)
        old = ssl.create_default_context(cafile=str(self.certificate))
        old.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        old.maximum_version = ssl.TLSVersion.TLSv1_1
        old.set_ciphers("ALL:@SECLEVEL=0")
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=kit.PATIENCE) as raw:
            with self.assertRaises(ssl.SSLError):
                old.wrap_socket(raw, server_hostname="localhost")

    def test_a_renewed_certificate_is_taken_at_sighup_and_a_bad_one_is_not(self):
        self.server.start()
        renewed, key = make_certificate(self.server.folder, "second")
        self.key.write_bytes(key.read_bytes())
        self.certificate.write_bytes(renewed.read_bytes())
        self.server.signal(signal.SIGHUP)
        kit.wait_until(lambda: self.server.events("config.reloaded"))
        self.assert_answers_with(renewed)
        self.certificate.write_text("nonsense")
        self.server.signal(signal.SIGHUP)
        kit.wait_until(lambda: self.server.events("config.not_reloaded"))
        self.assert_answers_with(renewed)

    def test_files_that_cannot_be_used_are_named(self):
        other, _ = make_certificate(self.server.folder, "other")
        cases = [(self.server.folder / "none.pem", self.key, "none.pem"), (self.key, self.key, "first-key.pem"),
                 (other, self.key, "first-key.pem")]
        for certificate, key, named in cases:
            self.configure(certificate, key)
            with self.assertRaises(AssertionError) as failed:
                self.server.start()
            self.assertIn(named, str(failed.exception))
            self.assertIn("server.tls_", str(failed.exception))
