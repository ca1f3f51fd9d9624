package main

import "slices"

// figures are all of them, in the order in which they are measured and shown.
func figures() []figure {
	return slices.Concat(gateFigures(), fullFigures(), refsFigures(), mcpFigures(), loopFigures(), startFigures(), secretFigures(), storeFigures(), ledgerFigures(), cronFigures(), webhookFigures(), inboxFigures())
}
