package triggers_test

import (
	"fmt"
	"time"

	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/triggers"
)

// A schedule is a connection like any other, with one event.
func ExampleCron() {
	oslo := time.FixedZone("Oslo in winter", 60*60) // time.LoadLocation("Europe/Oslo") knows the summer as well
	morning := triggers.Cron("0 8 * * mon-fri", &triggers.CronOptions{Location: oslo, CatchUp: triggers.CatchUpLast})
	fmt.Println(morning.(provider.Checker).Check())

	err := triggers.Cron("0 8 30 feb *", nil).(provider.Checker).Check()
	fmt.Println(err)
	// Output:
	// <nil>
	// cron schedule "0 8 30 feb *": /spec/day none of the months has such a day, so it never fires [CONNECTION_INVALID] Choose a day that the month has.
}
