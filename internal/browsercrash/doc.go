// Package browsercrash holds a test: a process that fills in a form in a real
// Chromium, through the Playwright MCP server, is killed, and the next one goes
// on. What counts is what the page's own server, which lives in the test, saw.
//
// The Playwright server declares no identity, and a browser forgets all when it
// ends. So the test has an adapter that declares one: the id that a browser
// gives itself at each start, as its debugging address tells.
package browsercrash
