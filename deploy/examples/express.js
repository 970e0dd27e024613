// A service in Express whose log-ins Tidegate limits over HTTP. Run: npm install express; node express.js
//
// Where no node answers in time, the request passes: that is this service's own choice. To refuse it,
// answer 503 instead of next().

const express = require("express");

const tidegate = process.env.TIDEGATE || "http://127.0.0.1:7604";

// Middleware: asks about the attributes that `describe` makes of a request.
function limit(describe) {
  return async (request, response, next) => {
    let answer, decision;
    try {
      answer = await fetch(`${tidegate}/v1/check`, {
        method: "POST",
        headers: {"Content-Type": "application/json"},
        body: JSON.stringify({attributes: describe(request)}),
        signal: AbortSignal.timeout(200),
      });
      decision = await answer.json();
    } catch {
      return next();
    }
    for (const name of ["RateLimit-Policy", "RateLimit", "Retry-After"]) {
      if (answer.headers.has(name)) response.set(name, answer.headers.get(name));
    }
    // A mistake in the question, and what could not be decided, are no denials.
    if (decision.allowed !== false || ["busy", "error"].includes(decision.outcome)) return next();
    response.status(answer.status).json({error: decision.message});
  };
}

const service = express();
service.use(express.json());
service.post("/login",
  limit((request) => ({api: request.route.path, method: request.method, user: String(request.body.user)})),
  (request, response) => response.json({hello: request.body.user}));
service.listen(process.env.PORT || 8000, "127.0.0.1");
