package anthropic_test

import (
	"testing"

	"github.com/bridle-dev/bridle/internal/peers"
	"github.com/bridle-dev/bridle/model/internal/replay"
)

func TestAimock(t *testing.T) { replay.Aimock(t, newModel, peers.StartAimock(t, replay.Fixtures())) }
