package script

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/holdfast-project/holdfast/internal/durable"
	"github.com/holdfast-project/holdfast/internal/evidence"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/journal"
	"github.com/holdfast-project/holdfast/internal/render"
	"github.com/holdfast-project/holdfast/test/command"
)

// writeEvidence makes evidence as an interrupted run of this very command leaves
// it: "evidence DIR" for namespace ns, release r, context prod and the script's
// kubeconfig, with a Secret that is acknowledged and a migration that is
// uncertain.
func writeEvidence(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: evidence dir")
	}
	recorded := parameters(ts)
	j, err := journal.Create(durable.OS(), ts.MkAbs(args[0]), journal.Setup{
		Parameters: recorded,
		Executable: func() (io.ReadCloser, error) { return os.Open(binary(ts)) },
	})
	ts.Check(err)
	attempt, err := j.Register(evidence.Startup, plan())
	ts.Check(err)
	_, err = j.Load(evidence.Expectation{
		KubeconfigPath: recorded.Kubeconfig, KubeconfigSHA256: recorded.KubeconfigSHA256,
		Context: recorded.Context, Namespace: recorded.Namespace, Release: recorded.Release, Helper: recorded.Helper,
	})
	ts.Check(err)
	now := time.Now()
	ts.Check(attempt.Start(identity.SlotSecret, "11111111-1111-4111-8111-111111111111", now))
	secret := attempt.Plan().Slots[0].Object()
	secret.UID = "22222222-2222-4222-8222-222222222222"
	ts.Check(attempt.Acknowledge(identity.SlotSecret, secret, now.UTC().Format(time.RFC3339)))
	ts.Check(attempt.Start(identity.SlotMigration, "33333333-3333-4333-8333-333333333333", now))
	ts.Check(j.Close())
}

func binary(ts *testscript.TestScript) string {
	path, err := exec.LookPath(command.Name)
	ts.Check(err)
	return path
}

func parameters(ts *testscript.TestScript) evidence.Parameters {
	assets, err := render.Assets()
	ts.Check(err)
	helper, err := command.Helper(binary(ts), assets)
	ts.Check(err)
	kubeconfig, err := filepath.EvalSymlinks(ts.MkAbs("kubeconfig"))
	ts.Check(err)
	content, err := os.ReadFile(kubeconfig)
	ts.Check(err)
	sum := sha256.Sum256(content)
	asset := func(name string) evidence.Asset {
		return evidence.Asset{Name: name, Version: "1", SHA256: hex.EncodeToString(sum[:])}
	}
	return evidence.Parameters{
		Kubeconfig: kubeconfig, KubeconfigSHA256: hex.EncodeToString(sum[:]),
		Context: "prod", Namespace: "ns", Release: "r",
		Profile: asset("profile"), Chart: asset("chart"), Values: evidence.Stretched{Name: "values.yaml", Salt: hex.EncodeToString(sum[:16]), Iterations: 1, PBKDF2: hex.EncodeToString(sum[:])},
		Images:         []evidence.Image{{Role: "controller", Reference: "registry.example/app@sha256:" + hex.EncodeToString(sum[:])}},
		TimeoutSeconds: 60, Helper: helper,
		Cluster:   identity.Cluster{NamespaceUID: "44444444-4444-4444-8444-444444444444"},
		CreatedAt: time.Now().UTC().Format(time.RFC3339),
	}
}

func plan() evidence.Plan {
	const nonce = "0123456789abcdef0123456789abcdef"
	plan := evidence.Plan{Namespace: "ns", Release: "r", Nonce: nonce}
	for _, slot := range []identity.Slot{"secret", "migration", "api", "worker"} {
		planned := evidence.PlannedSlot{Slot: slot, APIVersion: "batch/v1", Kind: "Job", Namespace: "ns", Name: "r-preflight-" + string(slot) + "-01234567"}
		if slot == identity.SlotSecret {
			planned.APIVersion, planned.Kind, planned.SecretShape = "v1", "Secret", hex.EncodeToString(make([]byte, 32))
		} else {
			planned.Manifest = []byte(`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"` + planned.Name + `","namespace":"ns"}}`)
		}
		plan.Slots = append(plan.Slots, planned)
	}
	return plan
}
