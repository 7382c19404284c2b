"""/api/jobs: a person's jobs, for programs."""

from __future__ import annotations

from pathlib import Path

from .serving import serving


async def test_a_job_from_its_making_to_its_end(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        http = served.http
        body = {"name": "news", "schedule": "daily 08:30 Europe/Berlin", "prompt": "news?"}
        made = await http.post("/api/jobs", json=body)
        assert made.status_code == 201, made.text
        job = made.json()["job"]
        assert (job["schedule"], len(job["next_times"])) == ("cron 30 8 * * *", 3)
        path = f"/api/jobs/{job['id']}"
        assert (await http.post("/api/jobs", json=body)).status_code == 400
        assert [one["id"] for one in (await http.get("/api/jobs")).json()["jobs"]] == [job["id"]]
        changed = await http.patch(path, json={"schedule": "every 2 hours", "jitter": 5})
        assert changed.json()["job"]["schedule"].startswith("every 7200 from ")
        assert (await http.post(f"{path}/pause")).json()["job"]["state"] == "paused"
        assert (await http.patch(path, json={"enabled": True})).json()["job"]["enabled"]
        assert (await http.post(f"{path}/run")).status_code == 200
        while not (runs := (await http.get(f"{path}/history")).json()["runs"])[0]["ended_at"]:
            pass
        assert runs[0]["state"] == "done" and runs[0]["answer"].startswith("re: [Job 'news']")
        assert (await http.delete(path)).json() == {"ok": True}
        for answer in (await http.get(path), await http.post(f"{path}/run")):
            assert (answer.status_code, answer.json()["error"]["code"]) == (404, "job_not_found")


async def test_what_a_program_may_not_do_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        good = {"schedule": "daily 08:30", "prompt": "x"}
        for wrong in (
            {"schedule": "whenever"}, {"prompt": ""}, {"prompt": 5}, {"jitter": "x"},
            {"deliver": "telegram:42"}, {"mode": "full"}, {"usd_per_day": 1000},
            {"tokens_per_month": -1}, {"tokens_per_day": "x"},
        ):  # fmt: skip
            answer = await served.http.post("/api/jobs", json={**good, **wrong})
            assert answer.status_code == 400, (wrong, answer.text)
        assert (await served.http.get("/api/jobs")).json() == {"jobs": []}
