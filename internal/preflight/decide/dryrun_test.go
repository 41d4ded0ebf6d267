package decide

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const sentJob = `{"apiVersion":"batch/v1","kind":"Job",
"metadata":{"name":"demo-preflight-api-0a0a0a0a","namespace":"ns","labels":{"app.kubernetes.io/instance":"demo"},"annotations":{"holdfast-project.github.io/preflight-nonce":"ab"}},
"spec":{"suspend":true,"backoffLimit":0,"activeDeadlineSeconds":60,"template":{
 "metadata":{"labels":{"app.kubernetes.io/instance":"demo"}},
 "spec":{"restartPolicy":"Never","automountServiceAccountToken":false,"securityContext":{"runAsNonRoot":true},
  "containers":[{"name":"api","image":"demo@sha256:aaaa","command":["demo"],"args":["api","--all"],"env":[{"name":"A","value":"hunter2"}],"resources":{},
   "securityContext":{"allowPrivilegeEscalation":false}}],
  "volumes":[{"name":"v","emptyDir":{}}]}}}}`

// answer is what an API server makes of sentJob: defaults, a selector and the
// Job controller's labels.
func answer(t *testing.T, edits ...string) *unstructured.Unstructured {
	t.Helper()
	var u unstructured.Unstructured
	if err := u.UnmarshalJSON([]byte(sentJob)); err != nil {
		t.Fatal(err)
	}
	defaults := []string{
		"metadata.uid=" + `"0a0a0a0a-0000-4000-8000-000000000001"`, "metadata.generation=1", `metadata.managedFields=[{"manager":"x"}]`,
		"spec.completions=1", "spec.parallelism=1", `spec.completionMode="NonIndexed"`, `spec.podReplacementPolicy="TerminatingOrFailed"`,
		`spec.selector={"matchLabels":{"batch.kubernetes.io/controller-uid":"u"}}`, "spec.manualSelector=false",
		`spec.template.metadata.labels={"app.kubernetes.io/instance":"demo","job-name":"x","controller-uid":"u"}`,
		`spec.template.spec.dnsPolicy="ClusterFirst"`, `spec.template.spec.schedulerName="default-scheduler"`,
		"spec.template.spec.terminationGracePeriodSeconds=30", "status={}",
		`c.terminationMessagePath="/dev/termination-log"`, `c.imagePullPolicy="IfNotPresent"`,
	}
	for _, e := range append(defaults, edits...) {
		apply(t, u.Object, e)
	}
	return &u
}

// apply sets path=json, or removes "-path". "c." is the first container.
func apply(t *testing.T, object map[string]any, edit string) {
	t.Helper()
	path, text, _ := strings.Cut(strings.TrimPrefix(edit, "-"), "=")
	if rest, ok := strings.CutPrefix(path, "c."); ok {
		containers, _, _ := unstructured.NestedFieldNoCopy(object, "spec", "template", "spec", "containers")
		object, path = containers.([]any)[0].(map[string]any), rest
	}
	keys := strings.Split(path, ".")
	if strings.HasPrefix(edit, "-") {
		unstructured.RemoveNestedField(object, keys...)
		return
	}
	var wrapped unstructured.Unstructured
	if err := wrapped.UnmarshalJSON([]byte(`{"kind":"x","value":` + text + `}`)); err != nil {
		t.Fatalf("%s: %v", edit, err)
	}
	if err := unstructured.SetNestedField(object, wrapped.Object["value"], keys...); err != nil {
		t.Fatal(err)
	}
}

func TestDryRunOfAJob(t *testing.T) {
	const template = "spec.template.spec."
	for name, row := range map[string]struct {
		edits []string
		want  []string
	}{
		"A4.2b: the API server's defaults are nothing":          {nil, nil},
		"A4.2b: an empty map may be left out":                   {[]string{"-c.resources"}, nil},
		"A4.2b: a label that a policy adds to the Job":          {[]string{`metadata.labels={"app.kubernetes.io/instance":"demo","cost":"x"}`}, nil},
		"A4.2b: a toleration that a policy adds":                {[]string{template + `tolerations=[{"key":"x"}]`}, nil},
		"A4.2b: a webhook adds an owner":                        {[]string{`metadata.ownerReferences=[{"uid":"u"}]`}, []string{"metadata.ownerReferences: added"}},
		"A4.2b: a webhook adds a finalizer":                     {[]string{`metadata.finalizers=["x/y"]`}, []string{"metadata.finalizers: added"}},
		"A4.2b: a webhook adds a finalizer to the Pods":         {[]string{`spec.template.metadata.finalizers=["x/y"]`}, []string{"spec.template.metadata.finalizers: added"}},
		"A4.2a: a webhook adds a TTL":                           {[]string{"spec.ttlSecondsAfterFinished=0"}, []string{"spec.ttlSecondsAfterFinished: added"}},
		"A4.2b: another controller is to run it":                {[]string{`spec.managedBy="kueue.x-k8s.io/multikueue"`}, []string{"spec.managedBy: added"}},
		"A4.2b: a failure policy changes what counts":           {[]string{`spec.podFailurePolicy={"rules":[{"action":"Ignore"}]}`}, []string{"spec.podFailurePolicy: added"}},
		"A4.2c: it would not be suspended":                      {[]string{"spec.suspend=false"}, []string{"spec.suspend: changed"}},
		"A4.2c: the suspension is stripped":                     {[]string{"-spec.suspend"}, []string{"spec.suspend: removed"}},
		"A4.4: more tries":                                      {[]string{"spec.backoffLimit=6"}, []string{"spec.backoffLimit: changed"}},
		"A4.4: the try limit is stripped":                       {[]string{"-spec.backoffLimit"}, []string{"spec.backoffLimit: removed"}},
		"A4.4: no deadline":                                     {[]string{"-spec.activeDeadlineSeconds"}, []string{"spec.activeDeadlineSeconds: removed"}},
		"A4.4: the token is mounted":                            {[]string{template + "automountServiceAccountToken=true"}, []string{template + "automountServiceAccountToken: changed"}},
		"A4.4: an explicit false is not what its absence means": {[]string{"-" + template + "automountServiceAccountToken"}, []string{template + "automountServiceAccountToken: removed"}},
		"A4.4: escalation is allowed again":                     {[]string{"c.securityContext.allowPrivilegeEscalation=true"}, []string{template + "containers[0].securityContext.allowPrivilegeEscalation: changed"}},
		"A4.4: the container becomes privileged":                {[]string{"c.securityContext.privileged=true"}, []string{template + "containers[0].securityContext.privileged: added"}},
		"A4.4: said not to be privileged":                       {[]string{"c.securityContext.privileged=false"}, nil},
		"A4.2b: a changed image, in words":                      {[]string{`c.image="mirror/demo@sha256:aaaa"`}, []string{template + "containers[0].image: changed from demo@sha256:aaaa to mirror/demo@sha256:aaaa"}},
		"A4.2b: a changed command":                              {[]string{`c.command=["sh"]`}, []string{template + "containers[0].command[0]: changed"}},
		"A4.2b: a wrapped command":                              {[]string{`c.command=["wrap","demo"]`}, []string{template + "containers[0].command[0]: changed", template + "containers[0].command[1]: added"}},
		"A4.2b: an empty map becomes something else":            {[]string{`c.resources="x"`}, []string{template + "containers[0].resources: changed"}},
		"A4.2b: one argument of two is stripped":                {[]string{`c.args=["api"]`}, []string{template + "containers[0].args[1]: removed"}},
		"A4.2b: an empty list is no addition":                   {[]string{"c.volumeMounts=[]"}, nil},
		"A4.2b: an empty word is no addition":                   {[]string{template + `nodeName=""`}, nil},
		"A4.2b: stripped arguments":                             {[]string{"-c.args"}, []string{template + "containers[0].args: removed"}},
		"A4.2b: a changed environment, without its value":       {[]string{`c.env=[{"name":"A","value":"hunter3"}]`}, []string{template + "containers[0].env[0].value: changed"}},
		"A4.2b: an added environment variable":                  {[]string{`c.env=[{"name":"A","value":"hunter2"},{"name":"B","value":"secret"}]`}, []string{template + "containers[0].env[1]: added"}},
		"A4.2b: a variable that comes from elsewhere":           {[]string{`c.env=[{"name":"A","value":"hunter2","valueFrom":{"fieldRef":{"fieldPath":"spec.nodeName"}}}]`}, []string{template + "containers[0].env[0].valueFrom: added"}},
		"A4.2b: an added environment source":                    {[]string{`c.envFrom=[{"secretRef":{"name":"x"}}]`}, []string{template + "containers[0].envFrom: added"}},
		"A4.2b: an added mount":                                 {[]string{`c.volumeMounts=[{"name":"x"}]`}, []string{template + "containers[0].volumeMounts: added"}},
		"A4.2b: an added volume":                                {[]string{template + `volumes=[{"name":"v","emptyDir":{}},{"name":"w"}]`}, []string{template + "volumes[1]: added"}},
		"A4.2b: another volume in its place":                    {[]string{template + `volumes=[{"name":"v","hostPath":{"path":"/"}}]`}, []string{template + "volumes[0].hostPath: added"}},
		"A4.2b: an added sidecar":                               {[]string{template + `initContainers=[{"name":"proxy"}]`}, []string{template + "initContainers: added"}},
		"A4.2b: the host's network":                             {[]string{template + "hostNetwork=true"}, []string{template + "hostNetwork: added"}},
		"A4.2b: said not to be the host's network":              {[]string{template + "hostNetwork=false"}, nil},
		"A4.2b: another account":                                {[]string{template + `serviceAccountName="admin"`}, []string{template + "serviceAccountName: added"}},
		"A4.2b: a node is chosen":                               {[]string{template + `nodeName="n"`}, []string{template + "nodeName: added"}},
		"A4.3: our label is changed on the Pods":                {[]string{`spec.template.metadata.labels={"app.kubernetes.io/instance":"other"}`}, []string{"spec.template.metadata.labels.app.kubernetes.io/instance: changed"}},
		"A3.5: the nonce is stripped":                           {[]string{"-metadata.annotations"}, []string{"metadata.annotations: removed"}},
		"A4.3: another name":                                    {[]string{`metadata.name="other"`}, []string{"metadata.name: changed"}},
		"A4.2b: another namespace":                              {[]string{`metadata.namespace="other"`}, []string{"metadata.namespace: changed"}},
		"A4.2b: another kind":                                   {[]string{`kind="Other"`}, []string{"kind: changed"}},
		"A4.2b: all containers are gone":                        {[]string{"-" + template + "containers"}, []string{template + "containers: removed"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := DryRun([]byte(sentJob), answer(t, row.edits...))
			if err != nil {
				t.Fatal(err)
			}
			var lines []string
			for _, d := range got {
				lines = append(lines, d.String())
				if strings.Contains(d.String(), "hunter") {
					t.Errorf("a value is shown: %s", d)
				}
			}
			if diff := cmp.Diff(row.want, lines); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A4.2b: each field that decides over the Job's life, over what its Pod runs and
// over what it may do. The list is written out: a field that the code forgets is
// one that a webhook may add unseen.
func TestDryRunOfAJobAddsNothingThatDecides(t *testing.T) {
	fields := []string{
		"metadata.ownerReferences", "metadata.finalizers", "metadata.deletionTimestamp",
		"spec.ttlSecondsAfterFinished", "spec.managedBy", "spec.podFailurePolicy", "spec.successPolicy",
		"spec.template.metadata.ownerReferences", "spec.template.metadata.finalizers",
	}
	for _, field := range []string{"initContainers", "volumes", "nodeName", "hostNetwork", "hostPID", "hostIPC", "serviceAccountName", "ephemeralContainers"} {
		fields = append(fields, "spec.template.spec."+field)
	}
	for _, container := range []string{"initContainers[0]", "containers[0]"} {
		for _, field := range []string{"command", "args", "env", "envFrom", "volumeMounts", "volumeDevices", "lifecycle", "ports", "workingDir",
			"securityContext.privileged", "securityContext.procMount", "securityContext.runAsUser"} {
			fields = append(fields, "spec.template.spec."+container+"."+field)
		}
	}
	for _, field := range fields {
		t.Run(field, func(t *testing.T) {
			pod := map[string]any{"containers": []any{map[string]any{"name": "api"}}}
			init, inInit := strings.CutPrefix(field, "spec.template.spec.initContainers[0].")
			if inInit {
				pod["initContainers"] = []any{map[string]any{"name": "prepare"}}
			}
			sent := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "batch/v1", "kind": "Job", "spec": map[string]any{"template": map[string]any{"spec": pod}}}}
			body, err := sent.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			got := sent.DeepCopy()
			if inInit {
				container := got.Object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)["initContainers"].([]any)[0].(map[string]any)
				apply(t, container, init+`="x"`)
			} else {
				apply(t, got.Object, strings.Replace(field, "spec.template.spec.containers[0].", "c.", 1)+`="x"`)
			}
			differences, err := DryRun(body, got)
			if diff := cmp.Diff([]Difference{{field, "added"}}, differences); diff != "" || err != nil {
				t.Error(err, diff)
			}
		})
	}
}

// A4.2b: without both sides there is nothing to compare, and the error shows no value.
func TestDryRunOfNothing(t *testing.T) {
	answer := &unstructured.Unstructured{Object: map[string]any{}}
	if _, err := DryRun([]byte(`{"data":{"k":"aHVudGVyMg=="}`), answer); err == nil || strings.Contains(err.Error(), "aHVu") {
		t.Errorf("a broken body gives %v", err)
	}
	if _, err := DryRun([]byte(`{"apiVersion":"v1","kind":"ConfigMap"}`), nil); err == nil {
		t.Error("no answer is taken for a good one")
	}
}

// A4.2b: what a policy opens or closes decides whether the Job reaches its
// database.
func TestDryRunOfANetworkPolicy(t *testing.T) {
	policy := func(spec string) *unstructured.Unstructured {
		var u unstructured.Unstructured
		if err := u.UnmarshalJSON([]byte(`{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{"name":"p"},"spec":` + spec + `}`)); err != nil {
			t.Fatal(err)
		}
		return &u
	}
	const (
		outward = `{"podSelector":{},"egress":[{"ports":[{"port":53}]}]}`
		inward  = `{"podSelector":{"matchLabels":{"a":"b"}},"ingress":[{"ports":[{"port":80}]}]}`
	)
	for name, row := range map[string]struct {
		sent, answer string
		want         []Difference
	}{
		"A4.2b: its own selector and rules are nothing new": {inward, inward, nil},
		"A4.2b: an ingress rule is narrowed":                {inward, `{"podSelector":{"matchLabels":{"a":"b"}},"ingress":[{"ports":[{"port":80}],"from":[{"podSelector":{}}]}]}`, []Difference{{"spec.ingress[0].from", "added"}}},
		"A4.2b: the way out is opened":                      {inward, `{"podSelector":{"matchLabels":{"a":"b"}},"ingress":[{"ports":[{"port":80}]}],"egress":[{}]}`, []Difference{{"spec.egress", "added"}}},
		"A4.2b: defaults":                                   {outward, `{"podSelector":{},"policyTypes":["Ingress"],"egress":[{"ports":[{"port":53,"protocol":"TCP"}]}]}`, nil},
		"A4.2b: a rule is added":                            {outward, `{"podSelector":{},"egress":[{"ports":[{"port":53}]},{}]}`, []Difference{{"spec.egress[1]", "added"}}},
		"A4.2b: the other direction is opened":              {outward, `{"podSelector":{},"egress":[{"ports":[{"port":53}]}],"ingress":[{}]}`, []Difference{{"spec.ingress", "added"}}},
		"A4.2b: a rule is narrowed":                         {outward, `{"podSelector":{},"egress":[{"ports":[{"port":53}],"to":[{"ipBlock":{"cidr":"10.0.0.0/8"}}]}]}`, []Difference{{"spec.egress[0].to", "added"}}},
		"A4.2b: it is for fewer Pods":                       {outward, `{"podSelector":{"matchLabels":{"a":"b"}},"egress":[{"ports":[{"port":53}]}]}`, []Difference{{"spec.podSelector.matchLabels.a", "added"}, {"spec.podSelector.matchLabels", "added"}}},
		"A4.2b: the rules are stripped":                     {outward, `{"podSelector":{}}`, []Difference{{"spec.egress", "removed"}}},
	} {
		t.Run(name, func(t *testing.T) {
			sent, err := policy(row.sent).MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			got, err := DryRun(sent, policy(row.answer))
			if diff := cmp.Diff(row.want, got); diff != "" || err != nil {
				t.Error(err, diff)
			}
		})
	}
}
