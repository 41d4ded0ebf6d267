package evidence

import "errors"

// Load validates everything (A5.2 to A5.10) against what the command line says,
// fsyncs the facts, and returns what they prove. Every error is a *Refusal.
func (d *Dir) Load(expect Expectation) (*Inventory, error) {
	return nil, errors.New("loading evidence: not landed yet")
}

// LoadUnbound does the same without A5.3, for commands that send nothing.
func (d *Dir) LoadUnbound() (*Inventory, error) {
	return nil, errors.New("loading evidence: not landed yet")
}
