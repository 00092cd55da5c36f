// Replaces what is shown by what is so now, unless somebody is about to do something.
"use strict";
const every = 2000;
async function refresh() {
	const main = document.querySelector("main");
	const busy = document.hidden || main.querySelector("details[open]");
	if (!busy) {
		try {
			const answer = await fetch("/live", {credentials: "same-origin"});
			if (answer.status === 401) {
				location.reload();
				return;
			}
			if (answer.ok) {
				const made = new DOMParser().parseFromString(await answer.text(), "text/html");
				if (!main.querySelector("details[open]")) {
					main.replaceChildren(...made.body.childNodes);
				}
			}
			document.body.classList.toggle("stale", !answer.ok);
		} catch {
			document.body.classList.add("stale");
		}
	}
	setTimeout(refresh, every);
}
setTimeout(refresh, every);
