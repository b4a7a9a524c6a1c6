"""What several clients ask for in the same moment: whatever was acknowledged holds, and one of many wins."""

import json
import socket

import kit
from kit import says


class Volley:
    """Requests of which everything but the last byte has been sent; fire() sends those and reads the answers."""

    def __init__(self, client, requests):
        self._sockets = []
        for method, path, body in requests:
            data = json.dumps(body).encode()
            head = (f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {client.token}\r\n"
                    f"Content-Type: application/json\r\nConnection: close\r\nContent-Length: {len(data)}\r\n\r\n")
            connection = socket.create_connection(("127.0.0.1", client.port), timeout=kit.PATIENCE)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.sendall(head.encode() + data[:-1])
            self._sockets.append((connection, data[-1:]))

    def fire(self):
        for connection, last in self._sockets:
            connection.sendall(last)
        statuses = []
        for connection, _ in self._sockets:
            received = b""
            while chunk := connection.recv(65536):
                received += chunk
            connection.close()
            statuses.append(int(received.split(b" ", 2)[1]))
        return statuses


class AtOnce(kit.Case):
    setup = kit.Setup(agents=[{"name": "helper", "script": [says("hello", repeat=True)]}])
    ROUNDS = 10
    CLIENTS = 8

    def fire(self, requests):
        return Volley(self.client, requests).fire()

    def test_no_acknowledged_change_of_metadata_is_lost(self):
        for _ in range(self.ROUNDS):
            session = self.client.start(metadata={"before": True})["id"]
            statuses = self.fire([("PATCH", f"/v1/sessions/{session}", {"metadata": {f"k{n}": n}})
                                  for n in range(self.CLIENTS)])
            self.assertEqual(statuses, [200] * self.CLIENTS)
            self.assertEqual(self.client.session(session)["metadata"],
                             {"before": True, **{f"k{n}": n for n in range(self.CLIENTS)}})

    def test_no_acknowledged_change_of_a_task_is_lost(self):
        tasks = {f"changed-{n}": {"title": f"new {n}", "state": "DONE"} for n in range(self.ROUNDS)}
        for task, wanted in tasks.items():
            self.assert_status(self.client.post("/v1/tasks", {"id": task, "title": "old"}), 201)
            statuses = self.fire([("PATCH", f"/v1/tasks/{task}", {key: value}) for key, value in wanted.items()])
            self.assertEqual(statuses, [200, 200])

        def saved():
            return {task: {key: self.client.get(f"/v1/tasks/{task}")[key] for key in wanted}
                    for task, wanted in tasks.items()}
        self.assertEqual(saved(), tasks)
        self.restart()
        self.assertEqual(saved(), tasks)

    def test_a_task_has_one_maker(self):
        winners = {}
        for n in range(self.ROUNDS):
            statuses = self.fire([("POST", "/v1/tasks", {"id": f"made-{n}", "title": f"by {k}"})
                                  for k in range(self.CLIENTS)])
            self.assertEqual(sorted(statuses), [201] + [409] * (self.CLIENTS - 1))
            winners[f"made-{n}"] = f"by {statuses.index(201)}"
        for _ in range(2):
            self.assertEqual({task: self.client.get(f"/v1/tasks/{task}")["title"] for task in winners}, winners)
            self.restart()

    def test_many_members_of_metadata_are_merged_while_others_are_served(self):
        # A look at all members for each of them takes minutes here.
        wide = json.dumps({"metadata": {f"k{n}": n for n in range(150_000)}}).encode()
        made = self.assert_status(self.client.post("/v1/sessions", raw=wide), 201)
        path = f"/v1/sessions/{made['id']}"
        self.assert_status(self.client.patch(path, None, raw=wide), 200)
        self.assertEqual(len(self.client.get(path)["metadata"]), 150_000)
