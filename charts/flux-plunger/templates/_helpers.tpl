{{- define "flux-plunger.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end }}

{{- /* 48: the longest suffix of a name, "-release-fences", makes it 63. */ -}}
{{- define "flux-plunger.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 48 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 48 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 48 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "flux-plunger.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "flux-plunger.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name is empty: name the ServiceAccount to use, or let serviceAccount.create make one" .Values.serviceAccount.name -}}
{{- end -}}
{{- end }}

{{- /* What selects Pods of this release, whichever they are. */ -}}
{{- define "flux-plunger.instanceLabels" -}}
app.kubernetes.io/name: {{ include "flux-plunger.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* What selects the controller's Pods: the hook waits for these to end, so its own must not be among them. */ -}}
{{- define "flux-plunger.selectorLabels" -}}
{{ include "flux-plunger.instanceLabels" . }}
app.kubernetes.io/component: controller
{{- end }}

{{- define "flux-plunger.podSelector" -}}
app.kubernetes.io/name={{ include "flux-plunger.name" . }},app.kubernetes.io/instance={{ .Release.Name }},app.kubernetes.io/component=controller
{{- end }}

{{- define "flux-plunger.labels" -}}
{{ include "flux-plunger.instanceLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "flux-plunger.metadata" -}}
labels:
  {{- include "flux-plunger.labels" . | nindent 2 }}
{{- with .Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "flux-plunger.image" -}}
{{- $tag := default .Chart.AppVersion .Values.image.tag -}}
{{- .Values.image.repository }}:{{ $tag }}{{ with .Values.image.digest }}@{{ . }}{{ end }}
{{- end }}

{{- define "flux-plunger.podSecurityContext" -}}
runAsNonRoot: true
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "flux-plunger.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "flux-plunger.env" -}}
- name: RUNTIME_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
# Near its limit the process collects more often, rather than being killed.
- name: GOMEMLIMIT
  valueFrom:
    resourceFieldRef:
      resource: limits.memory
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* What decides where a Pod runs, for the controller and the hook alike. */ -}}
{{- define "flux-plunger.scheduling" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* Arguments that the controller and the hook must agree on: what is watched, and how long a stop takes. */ -}}
{{- define "flux-plunger.sharedArgs" -}}
- --watch-all-namespaces={{ .Values.watchAllNamespaces }}
{{- with .Values.watchLabelSelector }}
- --watch-label-selector={{ . }}
{{- end }}
- --shutdown-grace-period-seconds={{ int .Values.shutdownGracePeriodSeconds }}
{{- end }}
